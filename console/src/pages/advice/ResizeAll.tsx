// Running jobs get the size that is advised, one after the other; a refusal stops none of the others.
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { apiPath, send } from '../../api/lists'
import { FormDialog } from '../../ui/FormDialog'
import { formatShare } from '../../ui/format'
import { Fact } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import type { Resize } from './advice'

interface Refused {
  readonly resize: Resize
  readonly error: unknown
}

async function resizeAll(resizes: readonly Resize[]): Promise<Refused[]> {
  const refused: Refused[] = []
  for (const resize of resizes) {
    try {
      await send('POST', apiPath('jobs', resize.run.job, 'resize'), resize.body)
    } catch (error) {
      refused.push({ resize, error })
    }
  }
  return refused
}

interface ResizeAllProps {
  readonly title: string
  readonly resizes: readonly Resize[]
  onDone(): void
  onClose(): void
}

export function ResizeAll(props: ResizeAllProps) {
  const { t } = useTranslation('advice')
  // Kept as it was when the dialog opened: the list is renewed while it is open.
  const [resizes] = useState(props.resizes)
  const [refused, setRefused] = useState<Refused[]>([])
  return (
    <FormDialog
      title={props.title}
      confirm={t('resize', { count: resizes.length })}
      isReady={refused.length === 0}
      act={() => resizeAll(resizes)}
      onDone={(found) => {
        setRefused(found)
        props.onDone()
        if (found.length === 0) props.onClose()
      }}
      onClose={props.onClose}
      below={() =>
        refused.map(({ resize, error }) => (
          <div key={resize.run.job}>
            <p className="strong">{t('stays', { job: resize.run.name })}</p>
            <Refusal error={error} />
          </div>
        ))
      }
    >
      {() => (
        <>
          <dl className="facts left">
            {resizes.map(({ run, body }) => (
              <Fact key={run.job} name={run.name}>
                {t('change', {
                  before: formatShare(run.gpu_milli, run.memory_bytes),
                  after: formatShare(body.gpu_milli ?? run.gpu_milli, body.memory_bytes ?? run.memory_bytes),
                })}
              </Fact>
            ))}
          </dl>
          <p className="small sub">{t('resizeText')}</p>
        </>
      )}
    </FormDialog>
  )
}
