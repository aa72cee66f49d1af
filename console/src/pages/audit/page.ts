import { IconShieldCheck } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'books', order: 40, icon: IconShieldCheck },
  namespace: 'audit',
  needs: 'read-audit',
  path: '/audit',
  load: async () => (await import('./AuditPage')).AuditPage,
}
