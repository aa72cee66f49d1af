import { Button } from '@mantine/core'
import { IconNotebook, IconTerminal2 } from '@tabler/icons-react'
import { useMutation, useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Job } from '../../api/jobs'
import type { WorkspaceProgram } from '../../api/workspaces'
import { CopyButton, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { findProgramOf, openTab, showPage } from '../../workspace/pages'

// xterm.js is larger than the page: it is loaded when a terminal is opened.
const TerminalPanel = lazy(() => import('../../workspace/TerminalPanel'))
const EXAMPLE_PORT = 6006

/** Ways into a running job: its own page, a terminal, and the commands for SSH and ports. */
export function EnterPanel({ job }: { job: Job }) {
  const { t } = useTranslation('job')
  const [hasTerminal, setTerminal] = useState(false)
  const program = useQuery({ queryKey: ['job', job.id, 'program'], queryFn: () => findProgramOf(job) })
  const open = useMutation({
    mutationFn: async ({ found, tab }: { found: WorkspaceProgram; tab: Window | null }) => {
      try {
        await showPage(job.id, found, tab)
      } catch (error) {
        tab?.close()
        throw error
      }
    },
  })
  const found = program.data ?? null
  const lines = [`gpupool ssh ${job.name}`, `gpupool port-forward ${job.name} ${EXAMPLE_PORT}`]
  return (
    <>
      <Panel title={t('enter')}>
        <div className="row wrap">
          {found !== null && (
            <Button
              leftSection={<IconNotebook size={16} />}
              loading={open.isPending}
              onClick={() => open.mutate({ found, tab: openTab() })}
            >
              {t('openProgram', { program: found.title })}
            </Button>
          )}
          <Button
            variant="default"
            leftSection={<IconTerminal2 size={16} />}
            disabled={hasTerminal}
            onClick={() => setTerminal(true)}
          >
            {t('terminal')}
          </Button>
        </div>
        {open.isError && <Refusal error={open.error} />}
        {lines.map((line) => (
          <div key={line} className="cli">
            <code className="mono">{line}</code>
            <CopyButton text={line} label={t('shell:copyCommand')} />
          </div>
        ))}
      </Panel>
      {hasTerminal && (
        <Suspense fallback={<p className="sub">{t('shell:loading')}</p>}>
          <TerminalPanel job={job} onClose={() => setTerminal(false)} />
        </Suspense>
      )}
    </>
  )
}
