// The filter of the page Jobs, as the page's address has it, and the saved views.
import { ENDED_STATES, type JobFilter, type JobState } from '../../api/jobs'
import { quote } from '../../ui/shell'

export interface ListFilter {
  q: string
  states: readonly JobState[]
  tenant: string
  project: string
  user: string
  sort: string
}

export interface View {
  /** A built-in view's key, or the name that the viewer gave. */
  name: string
  isBuiltIn: boolean
  filter: ListFilter
}

const STORAGE_KEY = 'gpupool.jobs.views'
const STATES: readonly string[] = ['pending', 'starting', 'running', ...ENDED_STATES]
const DEFAULT_SORT = '-submitted'
export const SORTS = ['submitted', 'started', 'ended', 'name', 'gpu'] as const

export const EMPTY: ListFilter = { q: '', states: [], tenant: '', project: '', user: '', sort: DEFAULT_SORT }

/** The views that every viewer has. */
export function listBuiltInViews(user: string): View[] {
  const view = (name: string, filter: Partial<ListFilter>): View => ({
    name,
    isBuiltIn: true,
    filter: { ...EMPTY, ...filter },
  })
  return [
    view('all', {}),
    view('mine', { user }),
    view('running', { states: ['starting', 'running'] }),
    view('waiting', { states: ['pending'] }),
    view('failed', { states: ['failed', 'lost'], sort: '-ended' }),
  ]
}

/** Read a filter from the page's address; what it does not know it leaves out. */
export function readFilter(search: Record<string, unknown>): ListFilter {
  const text = (name: string) => (typeof search[name] === 'string' ? search[name] : '')
  const states = text('state')
    .split(',')
    .filter((state) => STATES.includes(state)) as JobState[]
  const column = text('sort').replace(/^-/, '') as (typeof SORTS)[number]
  return {
    q: text('q'),
    states,
    tenant: text('tenant'),
    project: text('project'),
    user: text('user'),
    sort: SORTS.includes(column) ? text('sort') : DEFAULT_SORT,
  }
}

/** Write a filter as the page's address, without what is usual. */
export function writeFilter(filter: ListFilter): Record<string, string> {
  const words: Record<string, string> = {}
  for (const name of ['q', 'tenant', 'project', 'user'] as const) if (filter[name]) words[name] = filter[name]
  if (filter.states.length > 0) words.state = filter.states.join(',')
  if (filter.sort !== DEFAULT_SORT) words.sort = filter.sort
  return words
}

/** The question to the server. */
export function buildQuestion(filter: ListFilter, cursor: string | undefined, limit: number): JobFilter {
  const { states, ...rest } = filter
  const question: JobFilter = { ...rest, state: states, limit, all: true }
  return cursor === undefined ? question : { ...question, cursor }
}

/** The same question on the command line. */
export function writeCommand(filter: ListFilter): string {
  const words = ['gpupool ps --all']
  for (const state of filter.states) words.push(`--state ${state}`)
  for (const name of ['tenant', 'project', 'user'] as const)
    if (filter[name]) words.push(`--${name} ${quote(filter[name])}`)
  if (filter.q) words.push(`--search ${quote(filter.q)}`)
  if (filter.sort !== DEFAULT_SORT) words.push(`--sort=${filter.sort}`)
  return words.join(' ')
}

export const isSameFilter = (one: ListFilter, other: ListFilter): boolean =>
  JSON.stringify(writeFilter(one)) === JSON.stringify(writeFilter(other))

/** The views that were saved in this browser. */
export function loadViews(): View[] {
  const text = localStorage.getItem(STORAGE_KEY)
  if (text === null) return []
  try {
    const entries = JSON.parse(text) as { name: string; filter: Record<string, unknown> }[]
    return entries.map((entry) => ({ name: String(entry.name), isBuiltIn: false, filter: readFilter(entry.filter) }))
  } catch {
    // Another version of the console wrote it: its views are gone, the page still works.
    localStorage.removeItem(STORAGE_KEY)
    return []
  }
}

export function storeViews(views: readonly View[]): void {
  const entries = views
    .filter((view) => !view.isBuiltIn)
    .map((view) => ({ name: view.name, filter: writeFilter(view.filter) }))
  localStorage.setItem(STORAGE_KEY, JSON.stringify(entries))
}
