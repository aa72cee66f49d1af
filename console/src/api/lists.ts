// Lists that the server answers in pages, and things that are changed by their generation.
import { request, SEAL } from './client'
import { Problem, readProblem } from './problem'

interface ListPage<Item> {
  items: Item[]
  next?: string | null
}

const PAGE_ROWS = 1000
/** Pages that are read of one list: a table of more rows is narrowed by its filter. */
const MOST_PAGES = 10

/** All rows of a list, up to 10,000. */
export async function listAll<Item>(path: string): Promise<Item[]> {
  const found: Item[] = []
  let after: string | null | undefined
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const words = new URLSearchParams({ limit: String(PAGE_ROWS) })
    if (after) words.set('after', after)
    const answer = await request<ListPage<Item>>(`${path}${path.includes('?') ? '&' : '?'}${words}`)
    found.push(...answer.items)
    after = answer.next
    if (!after) break
  }
  return found
}

/** The code of a change whose generation is not the latest. */
const STALE_GENERATION = 'GP-4001'

export const isStale = (error: unknown): boolean => error instanceof Problem && error.code === STALE_GENERATION

/** An answer and the header `ETag` that a change of it names. */
export interface Tagged<Body> {
  readonly body: Body
  readonly tag: string
}

async function readTagged<Body>(response: Response): Promise<Tagged<Body>> {
  if (!response.ok) throw await readProblem(response)
  return { body: (await response.json()) as Body, tag: response.headers.get('ETag') ?? '' }
}

export async function getTagged<Body>(path: string): Promise<Tagged<Body>> {
  return readTagged(await fetch(path, { credentials: 'same-origin', headers: SEAL, cache: 'no-store' }))
}

/**
 * Replace what was read with this tag.
 *
 * @throws Problem GP-4001 where another change came first.
 */
export async function putTagged<Body>(path: string, tag: string, body: unknown): Promise<Tagged<Body>> {
  const headers = { ...SEAL, 'Content-Type': 'application/json', 'If-Match': tag }
  const init = { method: 'PUT', credentials: 'same-origin', headers, body: JSON.stringify(body) } as const
  return readTagged(await fetch(path, init))
}

/** Send a body with one of the methods that change something. */
export const send = <T = void>(method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<T> =>
  request<T>(path, body === undefined ? { method } : { method, body: JSON.stringify(body) })

/** The parts of a path below /api/v1, each as the server reads it. */
export const apiPath = (...parts: string[]): string => ['/api/v1', ...parts.map(encodeURIComponent)].join('/')
