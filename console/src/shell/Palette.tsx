// The palette (Ctrl-K): pages, jobs by the server's own search, and acts.

import { useDebouncedValue } from '@mantine/hooks'
import { Spotlight, type SpotlightActionData } from '@mantine/spotlight'
import { IconListDetails, IconSearch } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { listJobs } from '../api/jobs'
import { isOffered, PAGES } from '../app/pages'
import { useSession } from '../app/session'

const JOBS_SHOWN = 6
const TYPING_MS = 200

export function Palette(props: { open: (path: string) => void }) {
  const { t } = useTranslation()
  const [text, setText] = useState('')
  const [asked] = useDebouncedValue(text.trim(), TYPING_MS)
  const jobs = useQuery({
    queryKey: ['jobs', 'palette', asked],
    queryFn: () => listJobs({ q: asked, limit: JOBS_SHOWN }),
    enabled: asked !== '',
    placeholderData: (previous) => previous,
  })
  const role = useSession().data?.role
  const pages: SpotlightActionData[] = PAGES.filter((page) => isOffered(page, role)).map((page) => {
    const Glyph = page.menu?.icon ?? IconSearch
    return {
      id: page.path,
      label: t(`${page.namespace}:menu`),
      leftSection: <Glyph size={17} aria-hidden />,
      rightSection: page.menu?.shortcut && <kbd>g {page.menu.shortcut}</kbd>,
      onClick: () => props.open(page.path),
    }
  })
  const found: SpotlightActionData[] = (asked === '' ? [] : (jobs.data?.items ?? [])).map((job) => ({
    id: job.id,
    label: job.name,
    description: `${job.tenant} · ${job.id}`,
    // The server found it by more than its name, so what was typed is one of its words.
    keywords: [text],
    leftSection: <IconListDetails size={17} aria-hidden />,
    onClick: () => props.open(`/jobs/${job.id}`),
  }))
  return (
    <Spotlight
      actions={[...pages, ...found]}
      query={text}
      onQueryChange={setText}
      shortcut={['mod + K']}
      limit={12}
      nothingFound={t('shell:palette.nothing')}
      overlayProps={{ blur: 0, backgroundOpacity: 0.4 }}
      searchProps={{
        placeholder: t('shell:palette.placeholder'),
        'aria-label': t('shell:palette.placeholder'),
        leftSection: <IconSearch size={16} aria-hidden />,
      }}
    />
  )
}
