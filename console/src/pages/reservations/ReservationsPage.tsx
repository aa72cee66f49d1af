// Reservations: when cards are held for whom, made and given back.
import { Button, SegmentedControl } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { apiPath, send } from '../../api/lists'
import { useSession } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatClock, formatDuration, formatNumber } from '../../ui/format'
import { Empty, Fact, Page, Panel } from '../../ui/Page'
import { Tenant } from '../../ui/ShareBar'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import { Lanes } from './Lanes'
import { ReservationDialog } from './ReservationDialog'
import type { Reservation } from './reservations'
import type { TimeSpan } from './timeSpan'
import './reservations.css'

const SPANS_HOURS = [24, 72, 168, 720] as const
const DAY_SECONDS = 86_400

export function ReservationsPage() {
  const { t } = useTranslation('reservations')
  const session = useSession().data
  const client = useQueryClient()
  const [hours, setHours] = useState<number>(72)
  const [creating, setCreating] = useState<{ span: TimeSpan | null } | null>(null)
  const [ending, setEnding] = useState<Reservation | null>(null)
  const found = useQuery({
    queryKey: ['reservations'],
    queryFn: async () => (await request<{ items: Reservation[] }>('/api/v1/reservations')).items,
  })
  const rows = found.data ?? []
  const mayChange = session?.permissions.includes('manage-tenant') ?? false
  const active = rows.filter((row) => row.state === 'active').length
  const done = () => {
    setCreating(null)
    setEnding(null)
    void client.invalidateQueries({ queryKey: ['reservations'] })
    void client.invalidateQueries({ queryKey: ['map'] })
  }
  const writeRepeat = (seconds: number | null | undefined) => {
    if (!seconds) return t('once')
    const time = seconds % DAY_SECONDS === 0 ? t('days', { count: seconds / DAY_SECONDS }) : formatDuration(seconds)
    return t('every', { time })
  }
  const columns: Column<Reservation>[] = [
    { title: t('name'), cell: (row) => <span className="strong">{row.name}</span> },
    { title: t('tenant'), cell: (row) => <Tenant name={row.tenant} /> },
    { title: t('holds'), cell: (row) => <Held reservation={row} /> },
    { title: t('state'), cell: (row) => <State state={row.state} /> },
    { title: t('from'), right: true, cell: (row) => formatClock(row.start_ns) },
    {
      title: t('until'),
      right: true,
      cell: (row) => (row.end_ns === null ? t('open') : formatClock(row.end_ns)),
    },
    {
      title: t('repeats'),
      minor: true,
      cell: (row) => writeRepeat(row.every_seconds),
    },
    { title: t('madeBy'), minor: true, cell: (row) => row.user },
  ]
  if (mayChange) {
    columns.push({
      title: <span className="sr">{t('acts')}</span>,
      right: true,
      cell: (row) => (
        <Button
          size="compact-xs"
          variant="default"
          aria-label={`${t('giveBack')} ${row.name}`}
          onClick={() => setEnding(row)}
        >
          {t('giveBack')}
        </Button>
      ),
    })
  }
  const create = (
    <Button size="xs" onClick={() => setCreating({ span: null })}>
      {t('reserve')}
    </Button>
  )
  const span = (
    <SegmentedControl
      size="xs"
      aria-label={t('span')}
      data={SPANS_HOURS.map((value) => ({ value: String(value), label: t('days', { count: value / 24 }) }))}
      value={String(hours)}
      onChange={(value) => setHours(Number(value))}
    />
  )
  const draw = mayChange ? { reserve: (drawn: TimeSpan) => setCreating({ span: drawn }) } : {}
  const lanes = <Lanes key={hours} reservations={rows} hours={hours} {...draw} />
  const sentence = found.data && t('fact', { count: rows.length, active: formatNumber(active) })
  return (
    <Page
      title={t('title')}
      sentence={sentence}
      actions={mayChange && rows.length > 0 && create}
      command="gpupool reservation list"
    >
      <Answer query={found}>
        {found.isSuccess && rows.length === 0 && (
          <Panel>
            <Empty action={mayChange && create}>{t(mayChange ? 'none' : 'noneHere')}</Empty>
          </Panel>
        )}
        {found.isSuccess && rows.length === 0 && mayChange && (
          <Panel title={t('lanes')} right={span} className="gap">
            {lanes}
          </Panel>
        )}
        {rows.length > 0 && (
          <div className="grid">
            <Panel title={t('lanes')} right={span}>
              {lanes}
            </Panel>
            <Panel title={t('all')}>
              <Table label={t('all')} columns={columns} rows={rows} rowKey={(row) => row.id} />
              <p className="small sub">
                {t('useText')} <code className="mono">gpupool submit --reservation {rows[0]?.name} …</code>
              </p>
            </Panel>
          </div>
        )}
      </Answer>
      {creating !== null && (
        <ReservationDialog
          span={creating.span}
          reservations={rows}
          tenant={session?.tenant ?? ''}
          isPoolAdmin={session?.permissions.includes('manage-pool') ?? false}
          onDone={done}
          onClose={() => setCreating(null)}
        />
      )}
      {ending !== null && (
        <FormDialog
          title={t('giveBackTitle', { name: ending.name })}
          confirm={t('giveBackNow')}
          danger
          act={() =>
            send('DELETE', `${apiPath('reservations', ending.name)}?${new URLSearchParams({ tenant: ending.tenant })}`)
          }
          onDone={done}
          onClose={() => setEnding(null)}
        >
          {() => (
            <>
              <dl className="facts left">
                <Fact name={t('tenant')}>{ending.tenant}</Fact>
                <Fact name={t('holds')}>
                  <Held reservation={ending} />
                </Fact>
                <Fact name={t('from')}>{formatClock(ending.start_ns)}</Fact>
                <Fact name={t('until')}>{ending.end_ns === null ? t('open') : formatClock(ending.end_ns)}</Fact>
              </dl>
              <p className="small">{t(ending.state === 'active' ? 'giveBackActive' : 'giveBackText')}</p>
            </>
          )}
        </FormDialog>
      )}
    </Page>
  )
}

/** What a reservation holds, as the CLI writes it; `share` has the cards of one node. */
export function Held({ reservation }: { reservation: Reservation }) {
  const { t } = useTranslation('reservations')
  const { replicas, share, model } = reservation
  const amount = replicas > 1 ? t('nodes', { count: replicas, share }) : share
  return <span className="num resv-held">{model ? t('ofModel', { amount, model }) : amount}</span>
}
