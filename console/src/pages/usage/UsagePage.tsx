// Usage and cost of a month: the closing line, the rows by what was asked, each day, and a CSV.
import { SegmentedControl, Select } from '@mantine/core'
import { IconAlertTriangle, IconCheck, IconDownload } from '@tabler/icons-react'
import { useQueries, useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useEffect, useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { Answer } from '../../ui/Answer'
import { findLocale, formatAmount, formatClock, formatNumber, formatPercent } from '../../ui/format'
import { Empty, Page, Panel } from '../../ui/Page'
import { Scroll } from '../../ui/Scroll'
import { type Piece, ShareBar, Tenant } from '../../ui/ShareBar'
import {
  findDigits,
  findMeasured,
  groupByModel,
  listMonths,
  listShownKinds,
  type Report,
  roundParts,
  shiftMonth,
  sortRows,
  sumKinds,
  toCardHours,
  toThousands,
  writeCsv,
} from './books'
import { Documents } from './Documents'
import { findDayEnd, listDays, makeSeries } from './days'
import { UsageTable } from './UsageTable'
import './usage.css'
import { ServerText } from '../../ui/ServerText'

const DayChart = lazy(() => import('./DayChart'))

export const GROUPS = ['tenant', 'project', 'user', 'model'] as const
export type Group = (typeof GROUPS)[number]
/** What the report is asked for: models are summed from cards. */
const REPORT_BY: Record<Group, string> = {
  tenant: 'tenant',
  project: 'tenant,project',
  user: 'tenant,user',
  model: 'card',
}
/** Months that can be chosen. */
const MOST_MONTHS = 24
const MINUTE_MS = 60_000

function askReport(since: string, until: string, by: string): Promise<Report> {
  return request(`/api/v1/report?${new URLSearchParams({ since, until, by })}`)
}

export function UsagePage() {
  const { t } = useTranslation('usage')
  const [now] = useState(Date.now)
  const months = useMemo(() => listMonths(now, MOST_MONTHS), [now])
  const [month, setMonth] = useState(months[0] ?? '')
  const [group, setGroup] = useState<Group>('tenant')
  const isCurrent = month === months[0]
  const report = useQuery({
    queryKey: ['report', month, group],
    queryFn: () => askReport(month, isCurrent ? 'now' : shiftMonth(month, 1), REPORT_BY[group]),
    staleTime: isCurrent ? MINUTE_MS : Number.POSITIVE_INFINITY,
  })
  const found = report.data
  const sentence = found && t('fact', { from: formatClock(found.since_ns), to: formatClock(found.until_ns) })
  const nameOfMonth = (text: string) =>
    new Intl.DateTimeFormat(findLocale(), { month: 'long', year: 'numeric', timeZone: 'UTC' }).format(new Date(text))
  const actions = (
    <>
      <Select
        size="xs"
        w={160}
        aria-label={t('month')}
        allowDeselect={false}
        data={months.map((value) => ({ value, label: nameOfMonth(value) }))}
        value={month}
        onChange={(value) => value !== null && setMonth(value)}
      />
      <SegmentedControl
        size="xs"
        aria-label={t('by')}
        data={GROUPS.map((value) => ({ value, label: t(`by.${value}`) }))}
        value={group}
        onChange={(value) => setGroup(value as Group)}
      />
      {found && <CsvLink report={found} name={`gpupool-${month}-${group}.csv`} />}
    </>
  )
  const until = isCurrent ? '' : ` --until ${shiftMonth(month, 1)}`
  const command = `gpupool report --since ${month}${until} --by ${REPORT_BY[group]}`
  return (
    <Page title={t('title')} sentence={sentence} actions={actions} command={command}>
      <Answer query={report}>
        {found && found.capacity_card_milliseconds === 0 && <Empty>{t('empty')}</Empty>}
        {found && found.capacity_card_milliseconds > 0 && (
          <div className="grid">
            <ClosingLine report={found} />
            <div className="grid g2 usage-parts">
              <Rows report={found} group={group} />
              <Days month={month} now={now} />
            </div>
            <Documents key={month} month={month} isOver={!isCurrent} />
          </div>
        )}
      </Answer>
    </Page>
  )
}

/** The same numbers as CSV, as a link to a file that is made here. */
function CsvLink({ report, name }: { report: Report; name: string }) {
  const { t } = useTranslation('usage')
  const [address, setAddress] = useState<string>()
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([writeCsv(report)], { type: 'text/csv;charset=utf-8' }))
    setAddress(made)
    return () => URL.revokeObjectURL(made)
  }, [report])
  return (
    <a className="chip" href={address} download={name}>
      <IconDownload size={15} aria-hidden />
      {t('exportCsv')}
    </a>
  )
}

function ClosingLine({ report }: { report: Report }) {
  const { t } = useTranslation('usage')
  const sums = sumKinds(report.rows)
  const capacity = report.capacity_card_milliseconds
  const kinds = listShownKinds(sums)
  const digits = findDigits(capacity)
  const rounded = roundParts(
    kinds.map((kind) => sums[kind]),
    digits,
  )
  const pieces: Piece[] = sortRows(report.rows)
    .filter((row) => row.kind === 'tenant')
    .map((row) => ({ width: row.card_milliseconds, tenant: row.tenant ?? null }))
  if (sums.reserved > 0) pieces.push({ width: sums.reserved, kind: 'unused', label: t('kind.reserved') })
  pieces.push(
    { width: sums.overhead, kind: 'reserved', label: t('kind.overhead') },
    { width: sums.unmanaged, kind: 'dead', label: t('kind.unmanaged') },
    { width: sums.idle, kind: 'stranded', label: t('kind.idle') },
  )
  return (
    <Panel>
      <div className="row wrap usage-closes">
        <span className={report.closes ? 'state s-ok' : 'state s-fault'}>
          {report.closes ? <IconCheck size={14} aria-hidden /> : <IconAlertTriangle size={14} aria-hidden />}
          {report.closes ? t('closes') : t('open')}
        </span>
        <span className="sub small">{t('checked')}</span>
        <span className="dim small">
          <ServerText text={report.rule} />
        </span>
        {report.simulated !== false && <span className="sim">{t('simulated')}</span>}
      </div>
      <ShareBar height={30} total={capacity} label={t('barLabel')} pieces={pieces} />
      <div className="row wrap num usage-sum">
        {kinds.map((kind, place) => (
          <Part
            key={kind}
            sign={place === 0 ? '' : '+'}
            name={t(`kind.${kind}`)}
            hours={rounded[place] ?? 0}
            digits={digits}
            ratio={sums[kind] / capacity}
          />
        ))}
        <Part
          sign="="
          name={`${t('capacity')}, ${t('cardHours')}`}
          hours={toCardHours(capacity)}
          digits={digits}
          ratio={1}
        />
      </div>
    </Panel>
  )
}

interface PartProps {
  readonly sign: string
  readonly name: string
  readonly hours: number
  readonly digits: number
  readonly ratio: number
}

function Part({ sign, name, hours, digits, ratio }: PartProps) {
  return (
    <span className="row usage-part">
      {sign !== '' && <span className="dim usage-sign">{sign}</span>}
      <span>
        <div className="small sub">{name}</div>
        <div className="usage-hours">{formatNumber(hours, digits)}</div>
        <div className="small dim">{formatPercent(ratio, 1)}</div>
      </span>
    </span>
  )
}

function Rows({ report, group }: { report: Report; group: Group }) {
  const { t } = useTranslation('usage')
  const rows = useMemo(() => {
    const tenants = sortRows(report.rows).filter((row) => row.kind === 'tenant' || row.kind === 'reserved')
    return group === 'model' ? groupByModel(tenants) : tenants
  }, [report, group])
  return (
    <Panel title={t('rows', { by: t(`by.${group}`) })}>
      {rows.length === 0 ? <Empty>{t('noRows')}</Empty> : <UsageTable report={report} rows={rows} group={group} />}
      <EnergyLine report={report} />
      {report.total_cost == null && <p className="small dim">{t('noPrice')}</p>}
    </Panel>
  )
}

/** What all cards drew, also those that no tenant held, and how much of the time is known. */
function EnergyLine({ report }: { report: Report }) {
  const { t } = useTranslation('usage')
  const measured = findMeasured(report)
  if (measured === null) return <p className="small dim">{t('noEnergy')}</p>
  const energy = formatAmount(toThousands(report.energy_milliwatt_hours), 2)
  const carbon = formatAmount(toThousands(report.co2e_milligrams), 2)
  return <p className="small dim">{t('energyOf', { energy, carbon, measured: formatPercent(measured) })}</p>
}

function Days({ month, now }: { month: string; now: number }) {
  const { t } = useTranslation('usage')
  const days = useMemo(() => listDays(month, now), [month, now])
  const answers = useQueries({
    queries: days.map((day) => {
      const until = findDayEnd(day, now)
      return {
        queryKey: ['report', 'day', day],
        queryFn: () => askReport(day, until, 'tenant'),
        staleTime: until === 'now' ? MINUTE_MS : Number.POSITIVE_INFINITY,
      }
    }),
    combine: (results) => ({
      rows: results.map((result) => result.data?.rows ?? null),
      error: results.find((result) => result.isError)?.error ?? null,
      pending: results.some((result) => result.isPending),
    }),
  })
  const series = useMemo(
    () => makeSeries(answers.rows, { others: t('others'), reserved: t('kind.reserved'), rest: t('rest') }),
    [answers.rows, t],
  )
  const numbers = useMemo(() => days.map((day) => String(Number(day.slice(8)))), [days])
  return (
    <Panel title={t('days')} hint={t('cardHours')}>
      <Answer query={{ isError: answers.error !== null, error: answers.error, data: undefined }}>
        <Suspense fallback={<div className="usage-chart" />}>
          {answers.pending ? (
            <div className="usage-chart" />
          ) : (
            <DayChart days={numbers} series={series} label={t('daysLabel')} />
          )}
        </Suspense>
        <div className="row wrap small usage-legend">
          {series.map((each) =>
            each.tenant === null ? (
              <span key={each.name} className="ten">
                <span className={each.isReserved ? 'sw unused' : 'sw usage-rest'} aria-hidden />
                {each.name}
              </span>
            ) : (
              <Tenant key={each.name} name={each.tenant} />
            ),
          )}
        </div>
        <details className="small usage-twin">
          <summary>{t('daysTable')}</summary>
          <Scroll label={t('daysTable')}>
            <table className="tbl">
              <thead>
                <tr>
                  <th>{t('day')}</th>
                  {series.map((each) => (
                    <th key={each.name} className="right">
                      {each.name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {days.map((day, place) => (
                  <tr key={day}>
                    <td className="nowrap">{day}</td>
                    {series.map((each) => (
                      <td key={each.name} className="right num">
                        {formatAmount(each.hours[place], 1)}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </details>
      </Answer>
    </Panel>
  )
}
