import { describe, expect, it } from 'vitest'
import { makeKey } from '../api/client'
import { findProgram, type WorkspaceProgram } from '../api/workspaces'
import { makeNotebookBody } from './pages'

const PROGRAM: WorkspaceProgram = {
  name: 'jupyter',
  title: 'JupyterLab',
  service: 'nb',
  page: 'lab',
  argv: ['sh', '-c', 'exec jupyter-lab', 'gpupool-notebook', ''],
  env: { PATH: '/bin' },
  one_machine: true,
  missing: null,
  install: 'pip install jupyterlab',
}

describe('notebooks', () => {
  it('are known by the name of their shell', () => {
    expect(findProgram(PROGRAM.argv)).toBe('jupyter')
    expect(findProgram(['sh', '-c', 'x', 'gpupool-vscode', '/srv'])).toBe('vscode')
    expect(findProgram(['python', 'gpupool-notebook'])).toBe(null)
    expect(findProgram(undefined)).toBe(null)
  })

  it('ask for a quarter of a card and run what the server names', () => {
    const body = makeNotebookBody(PROGRAM) as unknown as {
      shape: Record<string, unknown>
      launch: Record<string, unknown>
    }
    expect(body.shape).toMatchObject({ gpu_milli: 250, memory_bytes: 6 * 2 ** 30 })
    expect(body.launch).toMatchObject({ argv: PROGRAM.argv, env: PROGRAM.env })
  })

  it('have a key of their own for each submission', () => {
    expect(makeKey()).toMatch(/^[0-9a-f]{32}$/)
    expect(makeKey()).not.toBe(makeKey())
  })
})
