import { IconShieldCheck } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'books', order: 40, icon: IconShieldCheck, roles: ['admin', 'auditor', 'tenant-admin'] },
  namespace: 'audit',
  path: '/audit',
  load: async () => (await import('./AuditPage')).AuditPage,
}
