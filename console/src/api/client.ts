// The one door to the server: typed by our OpenAPI document, with the cookie of the session.
import createClient, { type Middleware } from 'openapi-fetch'
import { readProblem } from './problem'
import type { paths } from './schema'

/** Without it the server refuses a cookie's unsafe request; no other site may send it. */
export const SEAL = { 'X-Gpupool': '1' } as const
const UNAUTHENTICATED = 401

const sealAndJudge: Middleware = {
  onRequest({ request }) {
    for (const [name, value] of Object.entries(SEAL)) request.headers.set(name, value)
    return request
  },
  async onResponse({ response }) {
    if (response.ok || response.status === 304) return response
    if (response.status === UNAUTHENTICATED) leaveForLogin()
    throw await readProblem(response)
  },
}

export const api = createClient<paths>({ baseUrl: '/', credentials: 'same-origin' })
api.use(sealAndJudge)

/** Ask a route that the OpenAPI document does not describe yet, with the same rules as `api`. */
export async function request<T>(path: string, init: RequestInit = {}): Promise<T> {
  const headers = new Headers(init.headers)
  for (const [name, value] of Object.entries(SEAL)) headers.set(name, value)
  if (init.body) headers.set('Content-Type', 'application/json')
  const response = await fetch(path, { ...init, headers, credentials: 'same-origin' })
  if (response.status === UNAUTHENTICATED && path !== '/login') leaveForLogin()
  if (!response.ok) throw await readProblem(response)
  return (response.status === 204 ? undefined : await response.json()) as T
}

const KEY_BYTES = 16

/** Make a name for one submission; `randomUUID` is only there on pages with TLS. */
export function makeKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Go to the login page, which comes back to this page. */
export function leaveForLogin(): void {
  if (location.pathname === '/login') return
  const back = location.pathname + location.search
  location.assign(`/login?back=${encodeURIComponent(back)}`)
}
