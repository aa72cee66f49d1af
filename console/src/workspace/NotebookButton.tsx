import { Button, Modal } from '@mantine/core'
import { IconNotebook } from '@tabler/icons-react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { useSession } from '../app/session'
import { Refusal } from '../ui/Refusal'
import { ServerText } from '../ui/ServerText'
import { awaitRun, MissingProgram, NOTEBOOK_GIB, NOTEBOOK_MILLI, openTab, showPage, submitNotebook } from './pages'

const MILLI = 1000

/** One click: a notebook in a share, in a tab of its own; its job is shown here meanwhile. */
export function NotebookButton() {
  const { t } = useTranslation('shell')
  const session = useSession()
  const navigate = useNavigate()
  const queries = useQueryClient()
  const start = useMutation({
    mutationFn: async (tab: Window | null) => {
      try {
        const { job, program } = await submitNotebook()
        void queries.invalidateQueries({ queryKey: ['jobs'] })
        void navigate({ to: '/jobs/$job', params: { job: job.id } })
        if (tab === null) return
        if (await awaitRun(job.id, tab)) await showPage(job.id, program, tab)
        else tab.close()
      } catch (error) {
        tab?.close()
        throw error
      }
    },
  })
  if (!session.data?.permissions.includes('run')) return null
  const missing = start.error instanceof MissingProgram ? start.error.program : null
  return (
    <>
      <Button
        variant="default"
        leftSection={<IconNotebook size={16} />}
        loading={start.isPending}
        title={t('notebookShare', { gpu: NOTEBOOK_MILLI / MILLI, memory: NOTEBOOK_GIB })}
        onClick={() => start.mutate(openTab())}
      >
        {t('notebook')}
      </Button>
      <Modal
        opened={start.isError}
        onClose={() => start.reset()}
        title={t('notebookRefused')}
        closeButtonProps={{ 'aria-label': t('close') }}
      >
        {missing === null ? (
          <Refusal error={start.error} />
        ) : (
          <>
            <p>
              <ServerText text={missing.missing ?? ''} />
            </p>
            <p>{t('notebookInstall')}</p>
            <pre className="code mono">{missing.install}</pre>
          </>
        )}
      </Modal>
    </>
  )
}
