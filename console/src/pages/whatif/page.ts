import { IconGitBranch } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'pool', order: 90, icon: IconGitBranch, shortcut: 'i' },
  namespace: 'whatif',
  path: '/whatif',
  load: async () => (await import('./WhatIfPage')).WhatIfPage,
}
