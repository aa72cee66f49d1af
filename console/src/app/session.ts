// The viewer: account, role, rights. One question for all pages.
import { useQuery } from '@tanstack/react-query'
import { request } from '../api/client'
import type { components } from '../api/schema'

export type Session = components['schemas']['SessionOut']

export const SESSION_KEY = ['session'] as const

/** Roles that the server shows records of the audit log. */
const AUDIT_READERS: readonly string[] = ['admin', 'auditor', 'tenant-admin']

function addRights(session: Session): Session {
  if (!AUDIT_READERS.includes(session.role)) return session
  return { ...session, permissions: [...session.permissions, 'read-audit'] }
}

export function useSession() {
  return useQuery({
    queryKey: SESSION_KEY,
    queryFn: () => request<Session>('/api/v1/session'),
    select: addRights,
    staleTime: 5 * 60 * 1000,
  })
}

/** Whether the viewer may change what a user runs: the user itself may, and managers of its tenant. */
export function mayChangeOf(user: string, session: Pick<Session, 'user' | 'permissions'> | undefined): boolean {
  if (!session?.permissions.includes('run')) return false
  return session.permissions.includes('manage-tenant') || session.user === user
}

/** Whether the viewer sees every tenant's jobs by name. */
export const isPoolAdmin = (session: Session | undefined): boolean => session?.role === 'admin'
