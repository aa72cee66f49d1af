// Make a user or a service account, or change one.
import { SegmentedControl, Select, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { apiPath, listAll, send } from '../../api/lists'
import type { Session } from '../../app/session'
import { FormDialog } from '../../ui/FormDialog'
import { type Kind, listRoles, may, type Role, type TenantRow, type User } from './people'

interface UserDialogProps {
  readonly session: Session | undefined
  /** Null: a new one. */
  readonly user: User | null
  onDone(): void
  onClose(): void
}

const orNull = (text: string): string | null => (text.trim() === '' ? null : text.trim())

export function UserDialog({ session, user, onDone, onClose }: UserDialogProps) {
  const { t } = useTranslation('people')
  const isPoolAdmin = may(session, 'manage-pool')
  const tenants = useQuery({
    queryKey: ['people', 'tenants'],
    queryFn: () => listAll<TenantRow>('/api/v1/tenants'),
    enabled: isPoolAdmin,
  })
  const [kind, setKind] = useState<Kind>(user?.kind ?? 'person')
  const [name, setName] = useState(user?.name ?? '')
  const [tenant, setTenant] = useState(user?.tenant ?? session?.tenant ?? '')
  const [role, setRole] = useState<Role>(user?.role ?? 'user')
  const [unixUser, setUnixUser] = useState(user?.unix_user ?? '')
  const [runAs, setRunAs] = useState(user?.run_as ?? '')
  const roles = [...new Set([...listRoles(session), role])]
  const bound = isPoolAdmin ? { unix_user: orNull(unixUser), run_as: orNull(runAs) } : {}
  const owned = isPoolAdmin ? { tenant } : {}
  const act = () =>
    user === null
      ? send<User>('POST', apiPath('users'), { name: name.trim(), role, kind, ...owned, ...bound })
      : send<User>('PATCH', apiPath('users', user.name), { role, ...owned, ...bound })
  return (
    <FormDialog
      title={user === null ? t('newUser') : t('changeUser', { user: user.name })}
      confirm={user === null ? t('createUser') : t('saveUser')}
      isReady={name.trim() !== ''}
      fieldOfCode={{ 'GP-2006': 'name', 'GP-1003': 'name', 'GP-3004': 'tenant', 'GP-2053': 'unix_user' }}
      act={act}
      onDone={onDone}
      onClose={onClose}
    >
      {(problem) => (
        <>
          {user === null && (
            <>
              <SegmentedControl
                size="xs"
                aria-label={t('kind')}
                data={(['person', 'service'] as const).map((value) => ({ value, label: t(`kind.${value}`) }))}
                value={kind}
                onChange={(value) => setKind(value as Kind)}
              />
              {kind === 'service' && <p className="small sub">{t('serviceText')}</p>}
              <TextInput
                label={t('name')}
                value={name}
                error={problem('name')}
                data-autofocus
                onChange={(event) => setName(event.currentTarget.value)}
              />
            </>
          )}
          {isPoolAdmin && (
            <Select
              label={t('tenant')}
              searchable
              allowDeselect={false}
              data={[...new Set([...(tenants.data ?? []).map((each) => each.name), tenant])]}
              value={tenant}
              error={problem('tenant')}
              onChange={(value) => setTenant(value ?? tenant)}
            />
          )}
          <Select
            label={t('role')}
            allowDeselect={false}
            data={roles.map((value) => ({ value, label: t(`shell:role.${value}`, { defaultValue: value }) }))}
            value={role}
            error={problem('role')}
            onChange={(value) => setRole((value as Role | null) ?? role)}
          />
          <p className="small sub">{t(`roleText.${role}`)}</p>
          {isPoolAdmin && (
            <>
              <TextInput
                label={t('unixUser')}
                description={t('unixUserHint')}
                value={unixUser}
                error={problem('unix_user')}
                onChange={(event) => setUnixUser(event.currentTarget.value)}
              />
              <TextInput
                label={t('runAs')}
                description={t('runAsHint')}
                value={runAs}
                error={problem('run_as')}
                onChange={(event) => setRunAs(event.currentTarget.value)}
              />
            </>
          )}
          {user !== null && (role !== user.role || tenant !== user.tenant) && (
            <p className="small">{t('endsSessions')}</p>
          )}
        </>
      )}
    </FormDialog>
  )
}
