// Advice: what families of jobs ask for, what they use, and what would be enough; and how often that had been too little.
import { Button, NativeSelect } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { mayChangeOf, useSession } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { formatCards, formatMoney, formatNumber, formatPercent, formatShare, UNKNOWN } from '../../ui/format'
import { CopyButton, Empty, Page, Panel } from '../../ui/Page'
import { ServerText } from '../../ui/ServerText'
import { type Column, Table } from '../../ui/Table'
import { type Advice, type Backtest, type Method, planResizes, sumAdvice, writeOptions } from './advice'
import { ProposalsPanel } from './ProposalsPanel'
import { ResizeAll } from './ResizeAll'

const PERIODS = ['7d', '30d', '90d']
const MICRO = 1e6

export function AdvicePage() {
  const { t } = useTranslation('advice')
  const session = useSession().data
  const client = useQueryClient()
  const [since, setSince] = useState('30d')
  const [chosen, setChosen] = useState<Advice | null>(null)
  const found = useQuery({
    queryKey: ['advice', since],
    queryFn: () => request<Advice[]>(`/api/v1/advice?since=${since}`),
  })
  const families = found.data ?? []
  const sum = sumAdvice(families)
  const columns = useColumns(setChosen)
  const sentence =
    found.data &&
    (families.length === 0
      ? t('factNone')
      : t(sum.savedMilli === null ? 'factUnknown' : 'fact', {
          count: families.length,
          shrink: formatNumber(sum.shrink),
          grow: formatNumber(sum.grow),
          cards: formatCards(sum.savedMilli, 2),
        }))
  return (
    <Page title={t('title')} sentence={sentence} command={`gpupool advise --since ${since}`}>
      <div className="grid">
        <Panel
          title={t('families')}
          hint={t('familiesHint')}
          right={
            <NativeSelect
              size="xs"
              aria-label={t('since')}
              value={since}
              onChange={(event) => setSince(event.currentTarget.value)}
              data={PERIODS.map((value) => ({ value, label: t(`period.${value}`) }))}
            />
          }
        >
          <Answer query={found}>
            {found.isSuccess && families.length === 0 && <Empty>{t('noFamilies')}</Empty>}
            {families.length > 0 && (
              <Table label={t('families')} columns={columns} rows={families} rowKey={(family) => family.family} />
            )}
          </Answer>
        </Panel>
        {found.data && <ProposalsPanel families={families} />}
        <BacktestPanel since={since} />
      </div>
      {chosen && (
        <ResizeAll
          title={t('resizeTitle', { family: chosen.pattern })}
          resizes={planResizes(chosen).filter(({ run }) => mayChangeOf(run.user, session))}
          onDone={() => void client.invalidateQueries({ queryKey: ['advice'] })}
          onClose={() => setChosen(null)}
        />
      )}
    </Page>
  )
}

function useColumns(choose: (family: Advice) => void): Column<Advice>[] {
  const { t } = useTranslation('advice')
  const session = useSession().data
  return [
    {
      title: t('family'),
      cell: (family) => (
        <>
          <span className="strong word">{family.pattern}</span>
          <br />
          <span className="small sub word">{`${family.tenant} / ${family.project} / ${family.user}`}</span>
        </>
      ),
    },
    {
      title: t('runs'),
      right: true,
      minor: true,
      cell: (family) =>
        t('measured', { measured: formatNumber(family.measured_runs), runs: formatNumber(family.runs) }),
    },
    { title: t('asked'), right: true, cell: (family) => <Asked family={family} /> },
    {
      title: t('used'),
      right: true,
      minor: true,
      cell: (family) => (
        <span className="nowrap">
          {[family.used_p50_milli, family.used_p95_milli, family.used_max_milli]
            .map((milli) => formatCards(milli, 2))
            .join(' · ')}
        </span>
      ),
    },
    { title: t('advice'), right: true, cell: (family) => <Advised family={family} /> },
    {
      title: t('saves'),
      right: true,
      cell: (family) => (
        <>
          {formatCards(family.saved_milli, 2)}
          <br />
          <span className="small sub nowrap">
            {family.saved_micro_per_month === null
              ? UNKNOWN
              : t('perMonth', { money: formatMoney(family.saved_micro_per_month / MICRO, family.currency) })}
          </span>
        </>
      ),
    },
    {
      title: t('confidence'),
      minor: true,
      cell: (family) => (family.confidence === null ? UNKNOWN : t(`confidences.${family.confidence}`)),
    },
    {
      title: t('running'),
      right: true,
      cell: (family) => {
        const resizes = planResizes(family).filter(({ run }) => mayChangeOf(run.user, session)).length
        if (resizes === 0) return formatNumber(family.live.length)
        return (
          <Button size="compact-xs" variant="default" onClick={() => choose(family)}>
            {t('resize', { count: resizes })}
          </Button>
        )
      },
    },
  ]
}

function Asked({ family }: { family: Advice }) {
  if (family.profile !== null) return <span className="mono">{family.profile}</span>
  if (family.requested_milli === null) return <>{UNKNOWN}</>
  return <span className="nowrap">{formatShare(family.requested_milli, family.requested_bytes)}</span>
}

/** What would be enough, or why nothing is said. */
function Advised({ family }: { family: Advice }) {
  const { t } = useTranslation('advice')
  if (family.advice === 'unknown')
    return (
      <>
        {UNKNOWN}
        <br />
        <span className="small sub word">
          <ServerText text={family.reason} />
        </span>
      </>
    )
  const options = writeOptions(family)
  return (
    <>
      <span className="strong">{t(`kinds.${family.advice}`)}</span>{' '}
      {family.gpu_milli !== null && (
        <span className="nowrap">{formatShare(family.gpu_milli, family.memory_bytes)}</span>
      )}
      {options && <CopyButton text={options} label={t('copyOptions')} />}
      {family.limited_percent !== null && family.limited_percent >= 1 && (
        <div className="small sub">{t('limited', { part: formatPercent(family.limited_percent / 100) })}</div>
      )}
      {family.partition && <div className="small sub">{t('partition', { profile: family.partition.profile })}</div>}
    </>
  )
}

/** Each run judged by the runs before it: would the advice have been enough? */
function BacktestPanel({ since }: { since: string }) {
  const { t } = useTranslation('advice')
  const found = useQuery({
    queryKey: ['advice', 'backtest', since],
    queryFn: () => request<Backtest>(`/api/v1/advice/backtest?since=${since}`),
  })
  const judged = found.data?.judged_runs ?? 0
  const percent = (value: number | null) => (value === null ? UNKNOWN : formatPercent(value / 100, 1))
  const columns: Column<Method>[] = [
    { title: t('method'), cell: (method) => <span className="strong">{t(`methods.${method.method}`)}</span> },
    { title: t('starvedTime'), right: true, cell: (method) => percent(method.starved_percent) },
    { title: t('starvedRuns'), right: true, cell: (method) => formatNumber(method.starved_runs) },
    { title: t('shortOfMemory'), right: true, cell: (method) => formatNumber(method.short_of_memory) },
    { title: t('savedHours'), right: true, cell: (method) => formatNumber(method.saved_hours, 1) },
    { title: t('savedPart'), right: true, cell: (method) => percent(method.saved_percent) },
  ]
  return (
    <Panel title={t('backtest')} hint={t('backtestHint')}>
      <Answer query={found}>
        {found.isSuccess && judged === 0 && <Empty>{t('noneJudged')}</Empty>}
        {found.data && judged > 0 && (
          <>
            <p className="small sub">
              {t('judged', {
                count: judged,
                families: formatNumber(found.data.families),
                unjudged: formatNumber(found.data.unjudged_runs),
              })}
            </p>
            <Table
              label={t('backtest')}
              columns={columns}
              rows={found.data.methods}
              rowKey={(method) => method.method}
            />
          </>
        )}
      </Answer>
    </Panel>
  )
}
