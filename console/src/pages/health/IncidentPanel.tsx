// One incident: its XIDs, the jobs that it hit, what to do next, and taking it over or closing it.
import { Button, Checkbox, TextInput } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useSession } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatInstant, UNKNOWN } from '../../ui/format'
import { CopyButton, Fact, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { ServerText } from '../../ui/ServerText'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import {
  acceptIncident,
  closeIncident,
  type FaultEvidence,
  type FaultJob,
  getIncident,
  type Incident,
} from './incidents'

export function IncidentPanel({ id }: { id: string }) {
  const { t } = useTranslation('health')
  const client = useQueryClient()
  const mayAct = useSession().data?.permissions.includes('manage-cards') ?? false
  const [isClosing, setClosing] = useState(false)
  const found = useQuery({ queryKey: ['health', 'incident', id], queryFn: () => getIncident(id) })
  const renew = () => void client.invalidateQueries({ queryKey: ['health'] })
  const accept = useMutation({ mutationFn: () => acceptIncident(id), onSuccess: renew })
  const incident = found.data
  return (
    <Panel
      title={t('incidentOf', { id })}
      right={
        mayAct &&
        incident &&
        incident.state !== 'closed' && (
          <span className="row">
            {incident.state === 'open' && incident.repair !== 'none' && (
              <Button size="xs" loading={accept.isPending} onClick={() => accept.mutate()}>
                {t('accept', { repair: t(`repairs.${incident.repair}`) })}
              </Button>
            )}
            <Button size="xs" variant="default" onClick={() => setClosing(true)}>
              {t('close')}
            </Button>
          </span>
        )
      }
    >
      {accept.isError && <Refusal error={accept.error} />}
      <Answer query={found}>{incident && <Details incident={incident} />}</Answer>
      {isClosing && (
        <CloseDialog
          id={id}
          onDone={() => {
            setClosing(false)
            renew()
          }}
          onClose={() => setClosing(false)}
        />
      )}
    </Panel>
  )
}

function Details({ incident }: { incident: Incident }) {
  const { t } = useTranslation('health')
  const evidence: Column<FaultEvidence>[] = [
    { title: t('when'), cell: (one) => <span className="nowrap">{formatInstant(one.at_ns)}</span> },
    { title: t('card'), cell: (one) => <span className="word">{one.card}</span> },
    {
      title: 'XID',
      cell: (one) => (
        <span className="word">
          {one.xid} <ServerText text={one.meaning} />
        </span>
      ),
    },
    { title: t('driverSays'), cell: (one) => (one.recovery === null ? UNKNOWN : one.recovery) },
  ]
  const jobs: Column<FaultJob>[] = [
    {
      title: t('job'),
      cell: (one) => (
        <Link className="link strong word" to={'/jobs/$job' as never} params={{ job: one.job } as never}>
          {one.name || one.job}
        </Link>
      ),
    },
    { title: t('tenant'), cell: (one) => `${one.tenant} / ${one.user}` },
    { title: t('state'), cell: (one) => <State state={one.state} /> },
    { title: t('endedByFault'), cell: (one) => t(one.ended_by_fault ? 'yes' : 'no') },
  ]
  return (
    <>
      <dl className="facts left">
        <Fact name={t('reach')}>{t(`reaches.${incident.containment}`)}</Fact>
        <Fact name={t('proposed')}>{t(`repairs.${incident.repair}`)}</Fact>
        <Fact name={t('next')}>
          <ServerText text={incident.advice} />
        </Fact>
        {incident.next !== '' && (
          <Fact name={t('command')}>
            <span className="row">
              <code className="mono">{incident.next}</code>
              <CopyButton text={incident.next} label={t('shell:copyCommand')} />
            </span>
          </Fact>
        )}
        {incident.note !== '' && <Fact name={t('note')}>{incident.note}</Fact>}
      </dl>
      <div className="gap">
        <Table
          label={t('evidence')}
          columns={evidence}
          rows={incident.evidence}
          rowKey={(one) => `${one.uuid} ${one.xid} ${one.at_ns}`}
        />
      </div>
      {incident.affected.length > 0 && (
        <div className="gap">
          <Table
            label={t('jobsHit')}
            columns={jobs}
            rows={incident.affected}
            rowKey={(one) => `${one.job} ${one.card}`}
          />
        </div>
      )}
    </>
  )
}

function CloseDialog({ id, onDone, onClose }: { id: string; onDone: () => void; onClose: () => void }) {
  const { t } = useTranslation('health')
  const [note, setNote] = useState('')
  const [stillFailed, setStillFailed] = useState(false)
  return (
    <FormDialog
      title={t('closeTitle', { id })}
      confirm={t('close')}
      act={() => closeIncident(id, note, stillFailed)}
      onDone={onDone}
      onClose={onClose}
    >
      {() => (
        <>
          <TextInput
            label={t('whatWasDone')}
            maxLength={400}
            value={note}
            onChange={(event) => setNote(event.currentTarget.value)}
            data-autofocus
          />
          <Checkbox
            label={t('stillFailed')}
            checked={stillFailed}
            onChange={(event) => setStillFailed(event.currentTarget.checked)}
          />
        </>
      )}
    </FormDialog>
  )
}
