// Sessions of browsers: where each user is logged in, with a button that ends a session.
import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { apiPath, listAll, send } from '../../api/lists'
import type { Session } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatClock, UNKNOWN } from '../../ui/format'
import { Empty, Panel } from '../../ui/Page'
import { type Column, Table } from '../../ui/Table'
import { type LoginSession, nameBrowser } from './people'
import { Act } from './Users'

export function Sessions({ session }: { session: Session | undefined }) {
  const { t } = useTranslation('people')
  const client = useQueryClient()
  const [ending, setEnding] = useState<readonly LoginSession[] | null>(null)
  const sessions = useQuery({
    queryKey: ['people', 'sessions'],
    queryFn: () => listAll<LoginSession>('/api/v1/sessions'),
  })
  const rows = sessions.data ?? []
  const others = rows.filter((row) => row.user === session?.user && !row.current)
  const browserOf = (row: LoginSession) => nameBrowser(row.browser) || row.browser || UNKNOWN
  const columns: Column<LoginSession>[] = [
    {
      title: t('browser'),
      cell: (row) => (
        <span title={row.browser} className={row.current ? 'strong' : undefined}>
          {browserOf(row)} {row.current && `(${t('thisOne')})`}
        </span>
      ),
    },
    { title: t('user'), cell: (row) => row.user },
    { title: t('address'), minor: true, cell: (row) => <span className="mono">{row.address || UNKNOWN}</span> },
    { title: t('opened'), right: true, minor: true, cell: (row) => formatClock(row.created_ns) },
    { title: t('lastUsed'), right: true, cell: (row) => formatClock(row.used_ns) },
    {
      title: t('ends'),
      right: true,
      minor: true,
      cell: (row) => formatClock(Math.min(row.idle_ends_ns, row.expires_ns)),
    },
    {
      title: <span className="sr">{t('acts')}</span>,
      right: true,
      cell: (row) =>
        !row.current && (
          <span className="acts">
            <Act label={t('end')} of={`${browserOf(row)}, ${row.user}`} onClick={() => setEnding([row])} />
          </span>
        ),
    },
  ]
  return (
    <Panel
      title={t('sessions')}
      right={
        <Button size="xs" variant="default" disabled={others.length === 0} onClick={() => setEnding(others)}>
          {t('endOthers')}
        </Button>
      }
    >
      <Answer query={sessions}>
        {sessions.isSuccess && rows.length === 0 && <Empty>{t('noSessions')}</Empty>}
        {rows.length > 0 && <Table label={t('sessions')} columns={columns} rows={rows} rowKey={(row) => row.id} />}
      </Answer>
      {ending !== null && (
        <FormDialog
          title={t('endTitle')}
          confirm={t('endNow', { count: ending.length })}
          danger
          act={async () => {
            for (const row of ending) await send('DELETE', apiPath('sessions', row.id))
          }}
          onDone={() => {
            setEnding(null)
            void client.invalidateQueries({ queryKey: ['people'] })
          }}
          onClose={() => setEnding(null)}
        >
          {() => (
            <>
              <ul className="small sub hints">
                {ending.map((row) => (
                  <li key={row.id}>
                    {row.user}: {browserOf(row)}, {row.address || UNKNOWN}, {formatClock(row.used_ns)}
                  </li>
                ))}
              </ul>
              <p className="small">{t('endText')}</p>
            </>
          )}
        </FormDialog>
      )}
    </Panel>
  )
}
