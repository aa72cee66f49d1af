// Ways into running jobs: pages that a job serves, and programs that are started in it.
import { request } from './client'
import type { components } from './schema'

export type WorkspaceProgram = components['schemas']['WorkspaceProgramOut']
export type Visit = components['schemas']['VisitOut']
export type PreparedStream = components['schemas']['StreamOut']

/** What marks the jobs of a program: the name of the shell that starts it. */
const MARKERS: Record<string, string> = { 'gpupool-notebook': 'jupyter', 'gpupool-vscode': 'vscode' }
const MARKER_PLACE = 3

/** The name of the program that a job's command starts; null: another command. */
export const findProgram = (command: readonly string[] | null | undefined): string | null =>
  MARKERS[command?.[MARKER_PLACE] ?? ''] ?? null

export const listPrograms = () => request<WorkspaceProgram[]>('/api/v1/workspace-programs')

/** Make a link to a page of a job, for this browser, once. */
export const createVisit = (job: string, program: Pick<WorkspaceProgram, 'service' | 'page'>) =>
  request<Visit>(`/api/v1/jobs/${encodeURIComponent(job)}/visits`, {
    method: 'POST',
    body: JSON.stringify({ service: program.service, path: program.page }),
  })

export interface TerminalSize {
  rows: number
  columns: number
}

/** Prepare the viewer's shell in a job; the stream is opened once. */
export const prepareShell = (job: string, terminal: TerminalSize) =>
  request<PreparedStream>(`/api/v1/jobs/${encodeURIComponent(job)}/streams`, {
    method: 'POST',
    body: JSON.stringify({ kind: 'exec', argv: [], terminal, term: 'xterm-256color' }),
  })

/** The address of a prepared stream, as a WebSocket of this origin. */
export function findStreamAddress(stream: string): string {
  const scheme = location.protocol === 'https:' ? 'wss' : 'ws'
  return `${scheme}://${location.host}/api/v1/streams/${encodeURIComponent(stream)}`
}
