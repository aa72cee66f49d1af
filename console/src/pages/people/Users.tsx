// Users: persons and service accounts, their roles, whether they may log in; making and changing them.
import { Button, SegmentedControl, TextInput } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { apiPath, listAll, send } from '../../api/lists'
import type { Session } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatClock, UNKNOWN } from '../../ui/format'
import { Empty, Fact, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { Tenant } from '../../ui/ShareBar'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import { filterRows, type Kind, may, type User } from './people'
import { UserDialog } from './UserDialog'

type Open = { act: 'create' } | { act: 'change' | 'disable' | 'delete'; user: User }

export function Users({ session }: { session: Session | undefined }) {
  const { t } = useTranslation('people')
  const client = useQueryClient()
  const [typed, setTyped] = useState('')
  const [kind, setKind] = useState<Kind | 'all'>('all')
  const [open, setOpen] = useState<Open | null>(null)
  const users = useQuery({ queryKey: ['people', 'users'], queryFn: () => listAll<User>('/api/v1/users') })
  const mayChange = may(session, 'manage-tenant')
  const rows = useMemo(() => {
    const ofKind = (users.data ?? []).filter((user) => kind === 'all' || user.kind === kind)
    return filterRows(ofKind, typed, (user) => [user.name, user.tenant, user.role, user.unix_user])
  }, [users.data, kind, typed])
  const done = () => {
    setOpen(null)
    void client.invalidateQueries({ queryKey: ['people'] })
  }
  const enable = useMutation({
    mutationFn: (user: User) => send('PATCH', apiPath('users', user.name), { disabled: false }),
    onSuccess: done,
  })
  const roleOf = (user: User) => t(`shell:role.${user.role}`, { defaultValue: user.role })
  const columns: Column<User>[] = [
    { title: t('name'), cell: (user) => <span className="strong word">{user.name}</span> },
    { title: t('tenant'), cell: (user) => <Tenant name={user.tenant} /> },
    { title: t('role'), cell: roleOf },
    { title: t('kind'), minor: true, cell: (user) => t(`kind.${user.kind}`) },
    { title: t('unixUser'), minor: true, cell: (user) => user.unix_user ?? UNKNOWN },
    { title: t('runAs'), minor: true, cell: (user) => user.run_as ?? UNKNOWN },
    { title: t('state'), cell: (user) => <State state={user.disabled ? 'disabled' : 'enabled'} /> },
    { title: t('created'), minor: true, right: true, cell: (user) => formatClock(user.created_ns) },
  ]
  if (mayChange) {
    columns.push({
      title: <span className="sr">{t('acts')}</span>,
      right: true,
      cell: (user) => (
        <span className="acts">
          <Act label={t('change')} of={user.name} onClick={() => setOpen({ act: 'change', user })} />
          {user.disabled ? (
            <Act label={t('enable')} of={user.name} onClick={() => enable.mutate(user)} />
          ) : (
            <Act label={t('disable')} of={user.name} onClick={() => setOpen({ act: 'disable', user })} />
          )}
          <Act label={t('delete')} of={user.name} onClick={() => setOpen({ act: 'delete', user })} />
        </span>
      ),
    })
  }
  return (
    <Panel
      title={t('users')}
      right={
        mayChange && (
          <Button size="xs" onClick={() => setOpen({ act: 'create' })}>
            {t('newUser')}
          </Button>
        )
      }
    >
      <div className="row wrap filters">
        <TextInput
          size="xs"
          data-filter
          aria-label={t('filter')}
          placeholder={t('filter')}
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
        <SegmentedControl
          size="xs"
          aria-label={t('kind')}
          data={(['all', 'person', 'service'] as const).map((value) => ({ value, label: t(`kinds.${value}`) }))}
          value={kind}
          onChange={(value) => setKind(value as Kind | 'all')}
        />
      </div>
      <Answer query={users}>
        {users.isSuccess && rows.length === 0 && <Empty>{t(typed === '' ? 'noUsers' : 'noMatch')}</Empty>}
        {rows.length > 0 && <Table label={t('users')} columns={columns} rows={rows} rowKey={(user) => user.name} />}
      </Answer>
      {enable.isError && <Refusal error={enable.error} />}
      {(open?.act === 'create' || open?.act === 'change') && (
        <UserDialog
          session={session}
          user={open.act === 'change' ? open.user : null}
          onDone={done}
          onClose={() => setOpen(null)}
        />
      )}
      {open?.act === 'disable' && (
        <FormDialog
          title={t('disableTitle', { user: open.user.name })}
          confirm={t('disableNow')}
          danger
          act={() => send('PATCH', apiPath('users', open.user.name), { disabled: true })}
          onDone={done}
          onClose={() => setOpen(null)}
        >
          {() => (
            <>
              <UserPlan user={open.user} role={roleOf(open.user)} />
              <p className="small">{t('disableText')}</p>
            </>
          )}
        </FormDialog>
      )}
      {open?.act === 'delete' && (
        <FormDialog
          title={t('deleteUserTitle', { user: open.user.name })}
          confirm={t('deleteUserNow')}
          danger
          act={() => send('DELETE', apiPath('users', open.user.name))}
          onDone={done}
          onClose={() => setOpen(null)}
        >
          {() => (
            <>
              <UserPlan user={open.user} role={roleOf(open.user)} />
              <p className="small">{t('deleteUserText')}</p>
            </>
          )}
        </FormDialog>
      )}
    </Panel>
  )
}

function UserPlan({ user, role }: { user: User; role: string }) {
  const { t } = useTranslation('people')
  const tokens = useQuery({
    queryKey: ['people', 'tokens', user.name],
    queryFn: () => listAll<unknown>(`/api/v1/tokens?user=${encodeURIComponent(user.name)}`),
  })
  const sessions = useQuery({
    queryKey: ['people', 'sessions', user.name],
    queryFn: () => listAll<unknown>(`/api/v1/sessions?user=${encodeURIComponent(user.name)}`),
  })
  return (
    <dl className="facts left">
      <Fact name={t('tenant')}>{user.tenant}</Fact>
      <Fact name={t('role')}>{role}</Fact>
      <Fact name={t('tokens')}>{tokens.data?.length ?? UNKNOWN}</Fact>
      <Fact name={t('sessions')}>{sessions.data?.length ?? UNKNOWN}</Fact>
    </dl>
  )
}

/** A small button of a row; its name says which row. */
export function Act({ label, of, onClick }: { label: string; of: string; onClick: () => void }) {
  return (
    <Button size="compact-xs" variant="default" aria-label={`${label} ${of}`} onClick={onClick}>
      {label}
    </Button>
  )
}
