import { describe, expect, it } from 'vitest'
import type { Job } from '../../api/jobs'
import { buildBody, cloneJob, findField, isFault, type JobBody, mergeBody, readBody, TEMPLATES } from './form'

const form = { ...TEMPLATES.train, command: "python 'my train.py'" } as (typeof TEMPLATES)[string]

describe('buildBody', () => {
  it('sends amounts in the units of the API', () => {
    const body = buildBody({ ...form, gpu: 0.3, gib: 1.5, hours: 0.5 })
    expect(body).toMatchObject({
      shape: { gpu_milli: 300, memory_bytes: 1.5 * 1024 ** 3, memory_typed: '1.5GiB', model: null },
      launch: { argv: ['python', 'my train.py'] },
      max_seconds: 1800,
    })
  })

  it.each([
    [{ command: '  ' }, 'noCommand'],
    [{ command: "sh -c 'x" }, 'openQuote'],
    [{ environment: 'PATH=/bin\nnot a variable' }, 'badVariable'],
  ])('says which field cannot be sent: %o', (change, key) => {
    const fault = buildBody({ ...form, ...change })
    expect(isFault(fault) && fault.key).toBe(key)
  })

  it('keeps = inside a value', () => {
    const body = buildBody({ ...form, environment: 'A=b=c\n\nEMPTY=' })
    expect(isFault(body) ? null : body.launch.env).toEqual({ A: 'b=c', EMPTY: '' })
  })

  it('knows the fields that problems of the API name', () => {
    expect([findField('memory_bytes'), findField('argv'), findField('nothing')]).toEqual(['gib', 'command', null])
  })
})

describe('cloneJob', () => {
  it('asks for the same again', () => {
    const job = {
      name: 'sweep.3',
      array_index: 3,
      project: 'vision',
      gpu_milli: 250,
      memory_bytes: 8 * 1024 ** 3,
      count: 2,
      model: 'L40S',
      sharing: 'burst',
      priority: 0,
      max_seconds: 7200,
      preemptible: true,
      command: ['sh', '-c', 'a b'],
    } as unknown as Job
    expect(cloneJob(job)).toMatchObject({
      name: 'sweep',
      gpu: 0.25,
      gib: 8,
      count: 2,
      model: 'L40S',
      hours: 2,
      preemptible: true,
      command: "sh -c 'a b'",
    })
  })
})

describe('readBody', () => {
  it('reads what a form wrote, and a change keeps what the form has no field for', () => {
    const written = buildBody({ ...form, gpu: 0.3, gib: 1.5, environment: 'A=b=c', priority: 'high' }) as JobBody
    const before = { ...written, priority: 100, retries: 3 }
    const read = readBody(before)
    expect(read).toEqual({ ...form, gpu: 0.3, gib: 1.5, environment: 'A=b=c', priority: 'high', name: '' })
    const now = buildBody({ ...(read as typeof form), gpu: 0.5 }) as JobBody
    expect(mergeBody(before, now)).toMatchObject({
      retries: 3,
      shape: { gpu_milli: 500 },
      launch: { env: { A: 'b=c' } },
    })
  })

  it('is null for a job that the form has no fields for', () => {
    const written = buildBody(form) as JobBody
    expect(readBody({ ...written, array: 4 })).toBeNull()
  })
})
