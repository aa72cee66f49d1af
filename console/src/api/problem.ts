// Problems of the server (RFC 9457) as errors of the console.
import { prepareRefusal } from '../app/serverWords'

export interface ProblemBody {
  title: string
  status: number
  detail: string
  code: string
  hint?: string
  numbers?: Record<string, unknown>
}

/** A refusal of the server, with its stable code. */
export class Problem extends Error {
  readonly code: string
  readonly status: number
  readonly title: string
  readonly hint: string
  readonly numbers: Record<string, unknown>

  constructor(body: ProblemBody) {
    super(body.detail)
    this.name = 'Problem'
    this.code = body.code
    this.status = body.status
    this.title = body.title
    this.hint = body.hint ?? ''
    this.numbers = body.numbers ?? {}
  }

  /** Problems by field of a refused body: its last name, `memory_bytes` of `shape.memory_bytes`. */
  get fields(): Map<string, string> {
    const found = new Map<string, string>()
    const fields = this.numbers.fields
    if (!Array.isArray(fields)) return found
    for (const entry of fields as { field?: unknown; problem?: unknown }[]) {
      const name = String(entry.field ?? '')
        .split('.')
        .at(-1)
      if (name) found.set(name, String(entry.problem ?? ''))
    }
    return found
  }
}

/** Whether an error is the server's answer to what was asked; else it was not reached, or is in trouble. */
export const isRefused = (error: unknown): boolean => error instanceof Problem && error.status < 500

/** Read the answer's problem, or say what came instead of one; and get its words in the viewer's language. */
export async function readProblem(response: Response): Promise<Problem> {
  const text = await response.text()
  await prepareRefusal()
  try {
    const body: unknown = JSON.parse(text)
    if (typeof body === 'object' && body !== null && 'code' in body && 'detail' in body) {
      return new Problem({ title: '', status: response.status, ...(body as object) } as ProblemBody)
    }
  } catch {
    // A proxy's page is not JSON: the status alone says what it is.
  }
  return new Problem({
    title: response.statusText,
    status: response.status,
    detail: `HTTP ${response.status} ${response.statusText}`.trim(),
    code: '',
  })
}
