// What the page Request asks for, and the body that says so to the API.
import type { Job } from '../../api/jobs'
import type { components } from '../../api/schema'
import { GIB, MILLI } from '../../ui/format'
import { nameGroup } from '../jobs/rows'
import { joinWords, splitWords } from './words'

export type JobBody = components['schemas']['JobIn']
export type Sharing = 'fixed' | 'burst' | 'best-effort'
export const SHARINGS: readonly Sharing[] = ['fixed', 'burst', 'best-effort']

/** Names of the pool's priorities. */
export const PRIORITIES: ReadonlyMap<number, string> = new Map([
  [-100, 'low'],
  [0, 'normal'],
  [100, 'high'],
])

const HOUR_SECONDS = 3600
/** A job begins with no variable of the browser's machine, so a usual PATH is given. */
const DEFAULT_ENVIRONMENT = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nLANG=C.UTF-8'

export interface Form {
  name: string
  project: string
  gpu: number
  /** Memory per card; null: the same part of it as of the compute. */
  gib: number | null
  count: number
  /** '' is any model. */
  model: string
  sharing: Sharing
  priority: string
  hours: number | null
  preemptible: boolean
  command: string
  directory: string
  environment: string
}

const BASE: Form = {
  name: '',
  project: '',
  gpu: 0.25,
  gib: 8,
  count: 1,
  model: '',
  sharing: 'burst',
  priority: 'normal',
  hours: 8,
  preemptible: false,
  command: '',
  directory: '/tmp',
  environment: DEFAULT_ENVIRONMENT,
}

/** Beginnings of a request; a whole card takes all of its memory. */
export const TEMPLATES: Record<string, Form> = {
  notebook: { ...BASE, gpu: 0.25, gib: 8, hours: 8, command: 'jupyter lab --no-browser' },
  train: { ...BASE, gpu: 0.5, gib: 16, hours: 24, command: 'python train.py' },
  node: {
    ...BASE,
    gpu: 1,
    gib: null,
    count: 8,
    sharing: 'fixed',
    hours: 24,
    command: 'torchrun --nproc-per-node 8 train.py',
  },
  serve: { ...BASE, gpu: 0.3, gib: 24, hours: null, sharing: 'fixed', command: 'vllm serve ./model' },
  blank: { ...BASE, gpu: 0.1, gib: 4, hours: 1, command: 'nvidia-smi' },
}
export const FIRST_TEMPLATE = 'train'

/** A field of the form, as the API's problems name the part of the body that is wrong. */
const FIELDS: Record<string, keyof Form> = {
  gpu_milli: 'gpu',
  memory_bytes: 'gib',
  count: 'count',
  model: 'model',
  sharing: 'sharing',
  priority: 'priority',
  max_seconds: 'hours',
  name: 'name',
  project: 'project',
  argv: 'command',
  cwd: 'directory',
  env: 'environment',
}

export const findField = (name: string): keyof Form | null => FIELDS[name] ?? null

export interface FormFault {
  field: keyof Form
  key: 'noCommand' | 'openQuote' | 'badVariable'
  detail?: string
}

/** Build the body, or say which field cannot be sent. */
export function buildBody(form: Form): JobBody | FormFault {
  let argv: string[]
  try {
    argv = splitWords(form.command)
  } catch {
    return { field: 'command', key: 'openQuote' }
  }
  if (argv.length === 0) return { field: 'command', key: 'noCommand' }
  const environment = readEnvironment(form.environment)
  if (typeof environment === 'string') return { field: 'environment', key: 'badVariable', detail: environment }
  // The defaults of the API stand for what is left out.
  const body = {
    shape: {
      gpu_milli: Math.round(form.gpu * MILLI),
      memory_bytes: form.gib === null ? null : Math.round(form.gib * GIB),
      memory_typed: form.gib === null ? null : `${form.gib}GiB`,
      count: form.count,
      model: form.model || null,
      sharing: form.sharing,
    },
    launch: { argv, cwd: form.directory || '/', env: environment },
    name: form.name.trim() || null,
    project: form.project.trim() || null,
    priority: /^-?\d+$/.test(form.priority) ? Number(form.priority) : form.priority,
    max_seconds: form.hours === null ? null : Math.round(form.hours * HOUR_SECONDS),
    preemptible: form.preemptible,
  }
  return body as unknown as JobBody
}

export const isFault = (result: JobBody | FormFault): result is FormFault => 'field' in result

/** Variables of `NAME=value` lines, or the first line that is none. */
function readEnvironment(text: string): Record<string, string> | string {
  const variables: Record<string, string> = {}
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue
    const equals = line.indexOf('=')
    const name = line.slice(0, equals).trim()
    if (equals < 1 || /\s/.test(name)) return line.trim()
    variables[name] = line.slice(equals + 1)
  }
  return variables
}

/** The form of a body that was written before; null where the form has no fields for what it asks for. */
export function readBody(body: JobBody): Form | null {
  const { shape, launch } = body
  if (body.gang || body.array || launch.container || launch.vm || shape.gpu_milli == null) return null
  const sharing = SHARINGS.find((one) => one === shape.sharing)
  if (sharing === undefined) return null
  const priority = body.priority ?? 0
  return {
    ...BASE,
    project: body.project ?? '',
    gpu: shape.gpu_milli / MILLI,
    gib: shape.memory_bytes == null ? null : shape.memory_bytes / GIB,
    count: shape.count ?? 1,
    model: shape.model ?? '',
    sharing,
    priority: typeof priority === 'number' ? (PRIORITIES.get(priority) ?? String(priority)) : priority,
    hours: body.max_seconds ? body.max_seconds / HOUR_SECONDS : null,
    preemptible: body.preemptible ?? false,
    command: joinWords(launch.argv),
    directory: launch.cwd ?? '/',
    environment: Object.entries(launch.env ?? {})
      .map(([name, value]) => `${name}=${value}`)
      .join('\n'),
  }
}

/** A body as its form has it now; what the form has no field for stays. */
export const mergeBody = (before: JobBody, now: JobBody): JobBody => ({
  ...before,
  ...now,
  shape: { ...before.shape, ...now.shape },
  launch: { ...before.launch, ...now.launch },
})

/** The form of a job that exists; its surroundings (directory, variables) are not known here. */
export function cloneJob(job: Job): Form {
  const sharing = SHARINGS.find((one) => one === job.sharing) ?? 'fixed'
  return {
    ...BASE,
    name: nameGroup(job),
    project: job.project,
    gpu: job.gpu_milli / MILLI,
    gib: job.memory_bytes === null ? null : job.memory_bytes / GIB,
    count: job.count,
    model: job.model ?? '',
    sharing,
    priority: PRIORITIES.get(job.priority) ?? String(job.priority),
    hours: job.max_seconds ? job.max_seconds / HOUR_SECONDS : null,
    preemptible: job.preemptible,
    command: joinWords(job.command ?? []),
  }
}
