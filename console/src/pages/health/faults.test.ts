import { describe, expect, it } from 'vitest'
import type { PoolEvent } from '../../live/messages'
import { type Card, listFaults, listHistory, type Node, writeData } from './faults'

const card = (name: string, changes: object) =>
  ({
    name,
    uuid: `GPU-${name}`,
    node: 'n1',
    state: 'adopted',
    health: 'ok',
    health_reason: '',
    shares: 1,
    ...changes,
  }) as Card
const node = (name: string, ready: boolean) => ({ name, ready, last_seen_ns: 7 }) as Node
const event = (seq: number, kind: string, subject: string) => ({ seq, at_ns: seq * 10, kind, subject }) as PoolEvent

describe('listFaults', () => {
  it('begins with the gravest, and says since when by the latest event', () => {
    const cards = [
      card('a', { health: 'warning' }),
      card('b', { health: 'failed', health_reason: 'XID 79' }),
      card('c', {}),
    ]
    const events = [event(1, 'device.health', 'b'), event(2, 'device.health', 'b'), event(3, 'job.ended', 'b')]
    const found = listFaults(cards, [node('n1', true), node('n2', false)], events)
    expect(found.map((fault) => [fault.subject, fault.state, fault.sinceNs])).toEqual([
      ['b', 'failed', 20],
      ['n2', 'silent', 7],
      ['a', 'warning', null],
    ])
    expect(found[0]?.cause).toBe('XID 79')
  })

  it('is empty where all is well', () => {
    expect(listFaults([card('a', {})], [node('n1', true)], [])).toEqual([])
  })
})

it('the history has cards, nodes and the server, the latest first', () => {
  const events = [event(1, 'device.health', 'a'), event(2, 'job.ended', 'j'), event(3, 'node.silent', 'n')]
  expect(listHistory(events).map((each) => each.seq)).toEqual([3, 1])
})

it('data is one line without empty words', () => {
  expect(writeData({ uuid: 'GPU-1', before: 'ok', health: 'failed', note: '', more: {} })).toBe(
    'before ok, health failed',
  )
  expect(writeData(undefined)).toBe('')
})
