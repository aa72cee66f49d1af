import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  path: '/jobs/$job',
  namespace: 'job',
  load: async () => (await import('./JobPage')).JobPage,
}
