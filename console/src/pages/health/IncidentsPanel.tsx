// Incidents: the XIDs of a node that belong together, and what a person should do about them.
import { Button, Checkbox } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Answer } from '../../ui/Answer'
import { formatClock, formatNumber } from '../../ui/format'
import { Empty, Panel } from '../../ui/Page'
import { ServerText } from '../../ui/ServerText'
import { type Column, Table } from '../../ui/Table'
import { IncidentPanel } from './IncidentPanel'
import { type IncidentRow, listIncidents } from './incidents'

export function IncidentsPanel() {
  const { t } = useTranslation('health')
  const [all, setAll] = useState(false)
  const [chosen, setChosen] = useState<string | null>(null)
  const found = useQuery({ queryKey: ['health', 'incidents', all], queryFn: () => listIncidents(all) })
  const incidents = found.data ?? []
  const columns: Column<IncidentRow>[] = [
    {
      title: t('incident'),
      cell: (incident) => (
        <Button
          size="compact-xs"
          variant="subtle"
          px={0}
          aria-expanded={incident.id === chosen}
          onClick={() => setChosen(incident.id === chosen ? null : incident.id)}
        >
          {incident.id}
        </Button>
      ),
    },
    { title: t('state'), cell: (incident) => t(`incidentStates.${incident.state}`) },
    { title: t('card'), cell: (incident) => <span className="strong word">{incident.card}</span> },
    {
      title: t('cause'),
      cell: (incident) => (
        <span className="word">
          XID {incident.xid} <ServerText text={incident.meaning} />
        </span>
      ),
    },
    { title: t('proposed'), minor: true, cell: (incident) => t(`repairs.${incident.repair}`) },
    { title: t('jobsHit'), right: true, minor: true, cell: (incident) => formatNumber(incident.jobs) },
    { title: t('since'), right: true, cell: (incident) => formatClock(incident.first_ns) },
  ]
  return (
    <>
      <Panel
        title={t('incidents')}
        hint={t('incidentsHint')}
        right={
          <Checkbox
            size="xs"
            label={t('closedToo')}
            checked={all}
            onChange={(event) => setAll(event.currentTarget.checked)}
          />
        }
      >
        <Answer query={found}>
          {found.isSuccess && incidents.length === 0 && <Empty>{t('noIncidents')}</Empty>}
          {incidents.length > 0 && (
            <Table label={t('incidents')} columns={columns} rows={incidents} rowKey={(incident) => incident.id} />
          )}
        </Answer>
      </Panel>
      {chosen !== null && <IncidentPanel key={chosen} id={chosen} />}
    </>
  )
}
