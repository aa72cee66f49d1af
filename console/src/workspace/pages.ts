// Pages of jobs in a tab of their own. Browsers open a tab only in the moment of a click, and what
// it shows is known later: the tab waits, and is closed where nothing comes.
import { makeKey } from '../api/client'
import { getJob, hasEnded, type Job } from '../api/jobs'
import type { JobBody } from '../api/preview'
import { submitJob } from '../api/preview'
import { createVisit, findProgram, listPrograms, type WorkspaceProgram } from '../api/workspaces'
import { GIB } from '../ui/format'

export const NOTEBOOK_MILLI = 250
export const NOTEBOOK_GIB = 6
const JUPYTER = 'jupyter'
const LOOK_AGAIN_MS = 300

/** Open an empty tab; null where the browser opens none. */
export function openTab(): Window | null {
  const tab = window.open('', '_blank')
  // The page that comes there is a tenant's: it gets no way back to this one.
  if (tab !== null) tab.opener = null
  return tab
}

/** A program that cannot run where its job would. */
export class MissingProgram extends Error {
  readonly program: WorkspaceProgram

  constructor(program: WorkspaceProgram) {
    super(program.missing ?? '')
    this.program = program
  }
}

/** The program that a job's command starts; null: another command. */
export async function findProgramOf(job: Job): Promise<WorkspaceProgram | null> {
  const name = findProgram(job.command)
  if (name === null) return null
  return (await listPrograms()).find((program) => program.name === name) ?? null
}

/** Show the page of a job's program in a tab; in this one where there is no other. */
export async function showPage(job: string, program: WorkspaceProgram, tab: Window | null): Promise<void> {
  const visit = await createVisit(job, program)
  if (tab !== null && !tab.closed) tab.location.replace(visit.url)
  else location.assign(visit.url)
}

/** The body of a notebook: a share that every card has, as `gpupool notebook` asks for. */
export function makeNotebookBody(program: WorkspaceProgram): JobBody {
  return {
    shape: {
      gpu_milli: NOTEBOOK_MILLI,
      memory_bytes: NOTEBOOK_GIB * GIB,
      memory_typed: `${NOTEBOOK_GIB}GiB`,
      count: 1,
    },
    launch: { argv: program.argv, cwd: '/', env: program.env },
    name: 'notebook',
  } as unknown as JobBody
}

/** Submit a notebook. Throws MissingProgram, or the problem of the submission. */
export async function submitNotebook(): Promise<{ job: Job; program: WorkspaceProgram }> {
  const program = (await listPrograms()).find((one) => one.name === JUPYTER)
  if (program === undefined) throw new Error('the server has no notebooks')
  if (program.missing !== null) throw new MissingProgram(program)
  const submitted = await submitJob(makeNotebookBody(program), makeKey())
  return { job: submitted.first as Job, program }
}

/** Wait until a job runs; false: it has ended, or the tab that waited for it is closed. */
export async function awaitRun(job: string, tab: Window | null): Promise<boolean> {
  for (;;) {
    const now = await getJob(job)
    if (now.state === 'running') return true
    if (hasEnded(now) || tab === null || tab.closed) return false
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
  }
}
