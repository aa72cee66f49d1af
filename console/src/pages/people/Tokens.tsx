// Tokens: what programs log in with. A new one is shown once.
import { Button, Checkbox, Select, TextInput } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { apiPath, listAll, send } from '../../api/lists'
import type { Session } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatClock } from '../../ui/format'
import { Empty, Fact, Panel } from '../../ui/Page'
import { Secret } from '../../ui/Secret'
import { type Column, Table } from '../../ui/Table'
import { may, parseDays, type Token, type User } from './people'
import { Act } from './Users'

type Open = { act: 'create' } | { act: 'revoke'; token: Token }

export function Tokens({ session }: { session: Session | undefined }) {
  const { t } = useTranslation('people')
  const client = useQueryClient()
  const [open, setOpen] = useState<Open | null>(null)
  const [made, setMade] = useState<Token | null>(null)
  const tokens = useQuery({ queryKey: ['people', 'tokens'], queryFn: () => listAll<Token>('/api/v1/tokens') })
  const rows = tokens.data ?? []
  const done = () => {
    setOpen(null)
    void client.invalidateQueries({ queryKey: ['people'] })
  }
  const columns: Column<Token>[] = [
    { title: t('label'), cell: (token) => <span className="strong word">{token.label || t('noLabel')}</span> },
    { title: t('user'), cell: (token) => token.user },
    { title: t('tokenId'), minor: true, cell: (token) => <span className="mono">{token.id}</span> },
    { title: t('scopes'), minor: true, cell: (token) => token.scopes?.join(', ') ?? t('allScopes') },
    { title: t('lastUsed'), right: true, cell: (token) => formatClock(token.last_used_ns) },
    { title: t('created'), right: true, minor: true, cell: (token) => formatClock(token.created_ns) },
    {
      title: t('ends'),
      right: true,
      cell: (token) => (token.expires_ns === null ? t('never') : formatClock(token.expires_ns)),
    },
    {
      title: <span className="sr">{t('acts')}</span>,
      right: true,
      cell: (token) => (
        <span className="acts">
          <Act label={t('revoke')} of={token.label || token.id} onClick={() => setOpen({ act: 'revoke', token })} />
        </span>
      ),
    },
  ]
  return (
    <Panel
      title={t('tokens')}
      right={
        <Button size="xs" onClick={() => setOpen({ act: 'create' })}>
          {t('newToken')}
        </Button>
      }
    >
      {made?.token && <Secret text={made.token} title={t('tokenOnce')} onClose={() => setMade(null)} />}
      <Answer query={tokens}>
        {tokens.isSuccess && rows.length === 0 && <Empty>{t('noTokens')}</Empty>}
        {rows.length > 0 && <Table label={t('tokens')} columns={columns} rows={rows} rowKey={(token) => token.id} />}
      </Answer>
      {open?.act === 'create' && (
        <TokenDialog
          session={session}
          onDone={(token) => {
            setMade(token)
            done()
          }}
          onClose={() => setOpen(null)}
        />
      )}
      {open?.act === 'revoke' && (
        <FormDialog
          title={t('revokeTitle', { token: open.token.label || open.token.id })}
          confirm={t('revokeNow')}
          danger
          act={() => send('DELETE', apiPath('tokens', open.token.id))}
          onDone={done}
          onClose={() => setOpen(null)}
        >
          {() => (
            <>
              <dl className="facts left">
                <Fact name={t('user')}>{open.token.user}</Fact>
                <Fact name={t('lastUsed')}>{formatClock(open.token.last_used_ns)}</Fact>
                <Fact name={t('ends')}>
                  {open.token.expires_ns === null ? t('never') : formatClock(open.token.expires_ns)}
                </Fact>
              </dl>
              <p className="small">{t('revokeText')}</p>
            </>
          )}
        </FormDialog>
      )}
    </Panel>
  )
}

interface TokenDialogProps {
  readonly session: Session | undefined
  onDone(token: Token): void
  onClose(): void
}

const SCOPES = ['read', 'run', 'manage-tenant', 'manage-cards', 'manage-pool'] as const

function TokenDialog({ session, onDone, onClose }: TokenDialogProps) {
  const { t } = useTranslation('people')
  const mayForOthers = may(session, 'manage-tenant')
  const users = useQuery({
    queryKey: ['people', 'users'],
    queryFn: () => listAll<User>('/api/v1/users'),
    enabled: mayForOthers,
  })
  const own = session?.user ?? ''
  const [label, setLabel] = useState('')
  const [user, setUser] = useState(own)
  const [days, setDays] = useState('90')
  const [scopes, setScopes] = useState<string[]>([])
  const seconds = parseDays(days)
  const act = () =>
    send<Token>('POST', apiPath('tokens'), {
      label: label.trim(),
      user,
      expires_seconds: seconds,
      scopes: scopes.length === 0 ? null : scopes,
    })
  return (
    <FormDialog
      title={t('newToken')}
      confirm={t('createToken')}
      isReady={seconds !== undefined}
      act={act}
      onDone={onDone}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <TextInput
            label={t('label')}
            description={t('labelHint')}
            value={label}
            error={problem('label')}
            data-autofocus
            onChange={(event) => setLabel(event.currentTarget.value)}
          />
          {mayForOthers && (
            <Select
              label={t('user')}
              searchable
              allowDeselect={false}
              data={[...new Set([own, ...(users.data ?? []).map((each) => each.name)])]}
              value={user}
              error={problem('user')}
              onChange={(value) => setUser(value ?? own)}
            />
          )}
          <TextInput
            label={t('days')}
            description={t('daysHint')}
            inputMode="numeric"
            value={days}
            error={seconds === undefined ? t('notDays') : problem('expires_seconds')}
            onChange={(event) => setDays(event.currentTarget.value)}
          />
          <Checkbox.Group label={t('scopes')} description={t('scopesHint')} value={scopes} onChange={setScopes}>
            <div className="row wrap gap">
              {SCOPES.filter((scope) => may(session, scope)).map((scope) => (
                <Checkbox key={scope} size="xs" value={scope} label={t(`scope.${scope}`)} />
              ))}
            </div>
          </Checkbox.Group>
        </>
      )}
    </FormDialog>
  )
}
