// Settings: my messages with a test, what became of them, language, and the pool's own settings to read.
import { SegmentedControl } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import type { components } from '../../api/schema'
import { changeLanguage, type Language } from '../../app/i18n'
import { useSession } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { formatClock, formatDuration, formatNumber, UNKNOWN } from '../../ui/format'
import { Fact, Page, Panel } from '../../ui/Page'
import { Sections } from '../../ui/Sections'
import { ServerText } from '../../ui/ServerText'
import { State } from '../../ui/State'
import { Messages } from './Messages'
import { Receivers } from './Receivers'

type Schemas = components['schemas']
type Pool = Schemas['PoolOut']

export function SettingsPage() {
  const { t, i18n } = useTranslation('settings')
  const session = useSession().data
  const isPoolAdmin = session?.permissions.includes('manage-pool') ?? false
  const pool = useQuery({ queryKey: ['pool', 'settings'], queryFn: () => request<Pool>('/api/v1/pool') })
  const sections = [
    { name: 'messages', label: t('messages'), content: () => <Messages session={session} /> },
    { name: 'pool', label: t('pool'), content: () => <PoolFacts pool={pool} isPoolAdmin={isPoolAdmin} /> },
  ]
  const language = (
    <SegmentedControl
      size="xs"
      aria-label={t('language')}
      data={[
        { value: 'en', label: 'English' },
        { value: 'zh', label: '中文' },
      ]}
      value={i18n.language}
      onChange={(value) => void changeLanguage(value as Language)}
    />
  )
  const sentence = pool.data && t('fact', { version: pool.data.version })
  return (
    <Page title={t('title')} sentence={sentence} actions={language} command="gpupool notify list">
      {session && <Sections label={t('title')} sections={sections} />}
    </Page>
  )
}

interface PoolFactsProps {
  readonly pool: { readonly data: Pool | undefined; readonly isError: boolean; readonly error: unknown }
  readonly isPoolAdmin: boolean
}

function PoolFacts({ pool, isPoolAdmin }: PoolFactsProps) {
  const { t } = useTranslation('settings')
  const found = pool.data
  return (
    <div className="grid">
      <Panel title={t('pool')} hint={t('poolHint')}>
        <Answer query={pool}>
          {found && (
            <dl className="facts left">
              <Fact name={t('version')}>{found.version}</Fact>
              <Fact name={t('poolId')}>
                <span className="mono">{found.id}</span>
              </Fact>
              <Fact name={t('state')}>
                <State state={found.ready ? 'ready' : 'starting'} />
              </Fact>
              <Fact name={t('role')}>
                {t(`role.${found.role ?? 'alone'}`, { defaultValue: found.role ?? UNKNOWN })}
              </Fact>
              <Fact name={t('started')}>{formatClock(found.started_ns)}</Fact>
              <Fact name={t('store')}>
                <span className="word">{found.store}</span>
              </Fact>
              <Fact name={t('stateDir')}>
                <span className="mono word">{found.state_dir}</span>
              </Fact>
              <Fact name={t('listeners')}>
                <span className="mono word">{found.listeners.join(', ') || UNKNOWN}</span>
              </Fact>
              <Fact name={t('policy')}>
                {found.policy || UNKNOWN} {found.policy_fault && <ServerText text={`(${found.policy_fault})`} />}
              </Fact>
              <Fact name={t('size')}>
                {t('sizeText', { nodes: formatNumber(found.nodes), cards: formatNumber(found.devices) })}
              </Fact>
              <Fact name={t('ahead')}>{formatDuration(found.ledger_ahead_seconds)}</Fact>
            </dl>
          )}
        </Answer>
      </Panel>
      {isPoolAdmin && <Receivers />}
    </div>
  )
}
