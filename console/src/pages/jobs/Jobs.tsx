// The page Jobs: filtered and sorted by the server, drawn as far as it is seen.
import { ActionIcon, Button, TextInput } from '@mantine/core'
import { useDebouncedCallback, useMediaQuery } from '@mantine/hooks'
import { IconBookmarkPlus, IconPlus, IconSearch, IconX } from '@tabler/icons-react'
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useEffect, useMemo, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { listJobs } from '../../api/jobs'
import { useSession } from '../../app/session'
import { formatNumber } from '../../ui/format'
import { Empty, Page, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import {
  buildQuestion,
  EMPTY,
  isSameFilter,
  type ListFilter,
  listBuiltInViews,
  loadViews,
  readFilter,
  storeViews,
  type View,
  writeCommand,
  writeFilter,
} from './filter'
import { JobTable } from './JobTable'
import { buildRows } from './rows'
import { SaveView } from './SaveView'

const PAGE_SIZE = 100
const TYPING_MS = 250

export function Jobs() {
  const { t } = useTranslation('jobs')
  const navigate = useNavigate()
  const search = useSearch({ strict: false }) as Record<string, unknown>
  const filter = useMemo(() => readFilter(search), [search])
  const setFilter = (next: ListFilter) => void navigate({ to: '/jobs', search: writeFilter(next), replace: true })
  const isSmall = useMediaQuery('(max-width: 760px)', false, { getInitialValueInEffect: false }) ?? false
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set())
  const answer = useInfiniteQuery({
    queryKey: ['jobs', 'list', writeFilter(filter)],
    queryFn: ({ pageParam, signal }) => listJobs(buildQuestion(filter, pageParam, PAGE_SIZE), signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: (previous) => previous,
  })
  const jobs = useMemo(() => answer.data?.pages.flatMap((page) => page.items) ?? [], [answer.data])
  const rows = useMemo(() => buildRows(jobs, open), [jobs, open])
  const first = answer.data?.pages[0]
  const toggle = (group: string) => {
    const next = new Set(open)
    if (!next.delete(group)) next.add(group)
    setOpen(next)
  }
  return (
    <Page
      title={t('menu')}
      command={writeCommand(filter)}
      sentence={<Sentence loaded={jobs.length} total={first?.total_estimate} isExact={first?.total_exact ?? false} />}
      actions={
        <Button component={Link} to="/request" leftSection={<IconPlus size={16} />}>
          {t('request')}
        </Button>
      }
    >
      <FilterBar filter={filter} setFilter={setFilter} isSmall={isSmall} />
      {answer.isError && <Refusal error={answer.error} />}
      <Panel flush>
        {answer.isSuccess && rows.length === 0 ? (
          <NoJobs filter={filter} setFilter={setFilter} />
        ) : (
          <JobTable
            rows={rows}
            isSmall={isSmall}
            sort={filter.sort}
            setSort={(sort) => setFilter({ ...filter, sort })}
            toggle={toggle}
            onEnd={() => {
              if (answer.hasNextPage && !answer.isFetchingNextPage) void answer.fetchNextPage()
            }}
          />
        )}
      </Panel>
    </Page>
  )
}

function Sentence(props: { loaded: number; total: number | null | undefined; isExact: boolean }) {
  const { t } = useTranslation('jobs')
  if (props.total === null || props.total === undefined) return <>{t('loaded', { count: props.loaded })}</>
  return <>{t(props.isExact ? 'total' : 'totalAbout', { count: props.total, number: formatNumber(props.total) })}</>
}

function FilterBar(props: { filter: ListFilter; setFilter: (filter: ListFilter) => void; isSmall: boolean }) {
  const { t } = useTranslation('jobs')
  const session = useSession()
  const [saved, setSaved] = useState<View[]>(loadViews)
  const [isSaving, setSaving] = useState(false)
  const [text, setText] = useState(props.filter.q)
  const { q: asked } = props.filter
  const searched = useRef(asked)
  const search = useDebouncedCallback((q: string) => {
    searched.current = q
    props.setFilter({ ...props.filter, q })
  }, TYPING_MS)
  useEffect(() => {
    // A view, the menu or "show all" asks for something else: the field says so.
    if (asked === searched.current) return
    searched.current = asked
    setText(asked)
  }, [asked])
  const views = [...listBuiltInViews(session.data?.user ?? ''), ...saved]
  const current = views.find((view) => isSameFilter(view.filter, props.filter))
  const change = (next: View[]) => {
    setSaved(next)
    storeViews(next)
  }
  const choose = (view: View) => {
    setText(view.filter.q)
    props.setFilter(view.filter)
  }
  return (
    <div className="row wrap filters">
      <fieldset className="chips grow">
        <legend className="sr">{t('views')}</legend>
        {views.map((view) => (
          <span key={`${view.isBuiltIn}${view.name}`} className="chip-group">
            <button type="button" className="chip" aria-pressed={view === current} onClick={() => choose(view)}>
              {view.isBuiltIn ? t(`view.${view.name}`) : view.name}
            </button>
            {!view.isBuiltIn && (
              <ActionIcon
                variant="subtle"
                size="sm"
                aria-label={t('forget', { name: view.name })}
                onClick={() => change(saved.filter((other) => other !== view))}
              >
                <IconX size={13} />
              </ActionIcon>
            )}
          </span>
        ))}
        {current === undefined && (
          <button type="button" className="chip" onClick={() => setSaving(true)}>
            <IconBookmarkPlus size={15} aria-hidden />
            {t('save')}
          </button>
        )}
      </fieldset>
      <TextInput
        data-filter
        aria-label={t('filter')}
        placeholder={t('filterHint')}
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value)
          search(event.currentTarget.value)
        }}
        onKeyDown={(event) => {
          if (event.key !== 'Escape' && event.key !== 'Enter') return
          event.currentTarget.blur()
          document.getElementById('job-rows')?.focus()
        }}
        leftSection={<IconSearch size={15} aria-hidden />}
        rightSection={<kbd aria-hidden>/</kbd>}
        w={props.isSmall ? '100%' : 270}
        size="sm"
      />
      <SaveView
        opened={isSaving}
        onClose={() => setSaving(false)}
        onSave={(name) => {
          const view = { name, isBuiltIn: false, filter: props.filter }
          change([...saved.filter((other) => other.name !== name), view])
          setSaving(false)
        }}
      />
    </div>
  )
}

function NoJobs(props: { filter: ListFilter; setFilter: (filter: ListFilter) => void }) {
  const { t } = useTranslation('jobs')
  if (isSameFilter(props.filter, EMPTY)) {
    return (
      <Empty
        action={
          <Button component={Link} to="/request" leftSection={<IconPlus size={16} />}>
            {t('request')}
          </Button>
        }
      >
        <p>{t('none')}</p>
        <code className="mono">gpupool submit --gpu 0.25 --memory 8GiB -- python train.py</code>
      </Empty>
    )
  }
  return (
    <Empty
      action={
        <button type="button" className="chip" onClick={() => props.setFilter(EMPTY)}>
          {t('showAll')}
        </button>
      }
    >
      {t('noMatch')}
    </Empty>
  )
}
