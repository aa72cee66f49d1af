import { Button, Modal, NumberInput } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { type Job, resizeJob } from '../../api/jobs'
import { formatShare, GIB, MILLI } from '../../ui/format'
import { Fact } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { ServerText } from '../../ui/ServerText'

/** Another size for a running job, per card, on the cards that it has. */
export function ResizeDialog(props: { job: Job; onClose: () => void }) {
  const { t } = useTranslation('job')
  const { job } = props
  const queries = useQueryClient()
  const [gpu, setGpu] = useState<number | string>(job.gpu_milli / MILLI)
  const [gib, setGib] = useState<number | string>((job.memory_bytes ?? 0) / GIB)
  const wanted = { gpu_milli: Math.round(Number(gpu) * MILLI), memory_bytes: Math.round(Number(gib) * GIB) }
  const resize = useMutation({
    mutationFn: () => resizeJob(job.id, wanted),
    onSuccess: (answer) => queries.setQueryData(['job', job.id], answer.job),
  })
  const done = resize.data
  return (
    <Modal
      opened
      onClose={props.onClose}
      title={t('resizeTitle', { name: job.name })}
      closeButtonProps={{ 'aria-label': t('shell:close') }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault()
          resize.mutate()
        }}
      >
        <div className="row wrap">
          <NumberInput
            className="grow"
            label={t('gpuPerCard')}
            min={0.01}
            max={1}
            step={0.05}
            decimalScale={3}
            value={gpu}
            onChange={setGpu}
            data-autofocus
          />
          <NumberInput
            className="grow"
            label={t('gibPerCard')}
            min={0.125}
            step={1}
            decimalScale={3}
            value={gib}
            onChange={setGib}
          />
        </div>
        <dl className="facts left gap">
          <Fact name={t('before')}>{formatShare(job.gpu_milli, job.memory_bytes, job.count)}</Fact>
          <Fact name={t('after')}>{formatShare(wanted.gpu_milli, wanted.memory_bytes, job.count)}</Fact>
        </dl>
        {resize.isError && <Refusal error={resize.error} />}
        {done && (
          <p className="small" role="status">
            {t(!done.changed ? 'resizeSame' : done.applied ? 'resizeApplied' : 'resizeWritten')}{' '}
            <ServerText text={done.note ?? ''} />
          </p>
        )}
        <div className="row dialog-acts">
          <Button type="submit" loading={resize.isPending} disabled={!wanted.gpu_milli || !wanted.memory_bytes}>
            {t('resizeNow')}
          </Button>
          <Button variant="default" onClick={props.onClose}>
            {done ? t('shell:close') : t('shell:cancel')}
          </Button>
        </div>
      </form>
    </Modal>
  )
}
