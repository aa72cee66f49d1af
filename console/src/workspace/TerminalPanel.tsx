import { Button } from '@mantine/core'
import { useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Job } from '../api/jobs'
import { Panel } from '../ui/Page'
import { Refusal } from '../ui/Refusal'
import { openShell, type ShellEnd } from './shell'
import './terminal.css'

/** The viewer's shell in a job, as its user. It ends with the panel. */
export default function TerminalPanel(props: { job: Job; onClose: () => void }) {
  const { t } = useTranslation('job')
  const { id, name } = props.job
  const box = useRef<HTMLDivElement>(null)
  const [isOpen, setOpen] = useState(false)
  const [end, setEnd] = useState<ShellEnd | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [hasOverrun, setOverrun] = useState(false)
  const label = t('terminalOf', { name })
  useEffect(() => {
    if (box.current === null) return
    return openShell(id, box.current, label, {
      opened: () => setOpen(true),
      ended: setEnd,
      failed: setError,
      overran: () => setOverrun(true),
    })
  }, [id, label])
  const state = end !== null ? formatEnd(end) : isOpen ? t('terminalOpen') : t('terminalOpens')
  function formatEnd(how: ShellEnd): string {
    if (how.code !== null) return t('terminalEnded', { code: how.code })
    return how.signal !== null ? t('terminalKilled', { signal: how.signal }) : t('terminalLost')
  }
  return (
    <Panel
      flush
      title={t('terminal')}
      hint={state}
      right={
        <Button size="xs" variant="default" onClick={props.onClose}>
          {t('shell:close')}
        </Button>
      }
    >
      {error !== null && <Refusal error={error} />}
      {hasOverrun && <p className="small sub">{t('terminalOverrun')}</p>}
      <div ref={box} className="terminal mono" data-state={end !== null ? 'ended' : isOpen ? 'open' : 'opening'} />
    </Panel>
  )
}
