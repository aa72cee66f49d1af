import { Button, Modal, NumberInput, Switch } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { type Job, stopJob } from '../../api/jobs'
import { formatDuration, formatShare, secondsBetween } from '../../ui/format'
import { Fact } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'

const DEFAULT_GRACE_SECONDS = 10

/** The plan of a stop: what ends and what is lost, before anything happens. */
export function StopDialog(props: { job: Job; onClose: () => void }) {
  const { t } = useTranslation('job')
  const { job } = props
  const queries = useQueryClient()
  const [grace, setGrace] = useState<number | string>(DEFAULT_GRACE_SECONDS)
  const [isWholeArray, setWholeArray] = useState(false)
  const array = job.array ?? null
  const stop = useMutation({
    mutationFn: () => stopJob(isWholeArray && array !== null ? array : job.id, Number(grace) || 0),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ['job', job.id] })
      void queries.invalidateQueries({ queryKey: ['jobs'] })
      props.onClose()
    },
  })
  const hasRun = job.started_ns !== null && job.started_ns !== undefined
  return (
    <Modal
      opened
      onClose={props.onClose}
      title={t('stopTitle', { name: job.name })}
      closeButtonProps={{ 'aria-label': t('shell:close') }}
    >
      <dl className="facts left">
        <Fact name={t('stopEnds')}>{isWholeArray ? t('stopArray', { array }) : job.name}</Fact>
        <Fact name={t('stopOf')}>
          {job.user} · {job.tenant}
        </Fact>
        <Fact name={t('stopFrees')}>
          {hasRun ? formatShare(job.gpu_milli, job.memory_bytes, job.count) : t('stopFreesNothing')}
        </Fact>
        <Fact name={t('stopLoses')}>
          {!hasRun
            ? t('stopLosesPlace')
            : job.saved_ns
              ? t('stopLosesSince', { time: formatDuration(secondsBetween(job.saved_ns)) })
              : t('stopLosesAll', { time: formatDuration(secondsBetween(job.started_ns)) })}
        </Fact>
      </dl>
      {array !== null && (
        <Switch
          mt="md"
          label={t('stopWholeArray')}
          checked={isWholeArray}
          onChange={(event) => setWholeArray(event.currentTarget.checked)}
        />
      )}
      {hasRun && (
        <NumberInput
          mt="md"
          label={t('grace')}
          description={t('graceHint')}
          min={0}
          max={3600}
          value={grace}
          onChange={setGrace}
        />
      )}
      {stop.isError && <Refusal error={stop.error} />}
      <div className="row dialog-acts">
        <Button
          className="danger"
          variant="outline"
          loading={stop.isPending}
          onClick={() => stop.mutate()}
          data-autofocus
        >
          {isWholeArray ? t('stopAllNow') : t('stopNow')}
        </Button>
        <Button variant="default" onClick={props.onClose}>
          {t('shell:cancel')}
        </Button>
      </div>
    </Modal>
  )
}
