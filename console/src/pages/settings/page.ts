import { IconSettings } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'admin', order: 90, icon: IconSettings, shortcut: ',' },
  namespace: 'settings',
  path: '/settings',
  load: async () => (await import('./SettingsPage')).SettingsPage,
}
