import { IconPigMoney } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'books', order: 30, icon: IconPigMoney, shortcut: 'b' },
  namespace: 'budgets',
  path: '/budgets',
  load: async () => (await import('./BudgetsPage')).BudgetsPage,
}
