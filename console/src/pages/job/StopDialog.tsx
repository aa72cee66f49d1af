import { Button, Modal, NumberInput, Switch } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { type Job, stopJob } from '../../api/jobs'
import { formatDuration, formatShare, secondsBetween } from '../../ui/format'
import { Fact } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { findLoss, readGrace, type StopLoss } from './stop'

const DEFAULT_GRACE_SECONDS = 10
const LOSSES: Record<StopLoss, string> = {
  each: 'stopLosesEach',
  place: 'stopLosesPlace',
  since: 'stopLosesSince',
  all: 'stopLosesAll',
}

/** The plan of a stop: what ends and what is lost, before anything happens. */
export function StopDialog(props: { job: Job; onClose: () => void }) {
  const { t } = useTranslation('job')
  const { job } = props
  const queries = useQueryClient()
  const [grace, setGrace] = useState<number | string>(DEFAULT_GRACE_SECONDS)
  const [isWholeArray, setWholeArray] = useState(false)
  const array = job.array ?? null
  const stop = useMutation({
    mutationFn: () => stopJob(isWholeArray && array !== null ? array : job.id, readGrace(grace)),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ['job', job.id] })
      void queries.invalidateQueries({ queryKey: ['jobs'] })
      props.onClose()
    },
  })
  const loss = findLoss(job, isWholeArray)
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
          {loss === 'each'
            ? t('stopFreesEach')
            : loss === 'place'
              ? t('stopFreesNothing')
              : formatShare(job.gpu_milli, job.memory_bytes, job.count)}
        </Fact>
        <Fact name={t('stopLoses')}>
          {t(LOSSES[loss], {
            time: formatDuration(secondsBetween(loss === 'since' ? job.saved_ns : job.started_ns)),
          })}
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
      {loss !== 'place' && (
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
