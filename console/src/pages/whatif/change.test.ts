import { describe, expect, it } from 'vitest'
import { makeBody, NO_CHANGE, parseAdded, parseHorizon, parsePolicy, parseQuotas, writeCommand } from './change'

describe('nodes to add', () => {
  it('are written as for a simulated pool', () => {
    expect(parseAdded('4xL40S, 2x8xH200')).toEqual([
      { nodes: 1, cards: 4, model: 'L40S' },
      { nodes: 2, cards: 8, model: 'H200' },
    ])
    expect(parseAdded('')).toEqual([])
  })

  it.each(['L40S', '4 L40S', '0xL40S', '1x2x3xL40S', '4xL40S!'])('are not %s', (text) => {
    expect(parseAdded(text)).toBeNull()
  })
})

it('guarantees are in thousandths of a card', () => {
  expect(parseQuotas('team-nlp=8 cv=1.5')).toEqual({ 'team-nlp': 8000, cv: 1500 })
  expect(parseQuotas('team-nlp')).toBeNull()
})

it('the look ahead ends after 31 days', () => {
  expect(parseHorizon('24')).toBe(86_400)
  expect(parseHorizon('745')).toBeNull()
  expect(parseHorizon('')).toBeNull()
})

it('a policy is of placement, or a kind of sharing', () => {
  expect(parsePolicy('burst')).toEqual({ policy: null, sharing: 'burst' })
  expect(parsePolicy('fgd, best-effort')).toEqual({ policy: 'fgd', sharing: 'best-effort' })
  expect(parsePolicy('')).toEqual({ policy: null, sharing: null })
  expect(parsePolicy('fixed,burst')).toBeNull()
})

describe('a change', () => {
  const change = { add: '4xL40S', remove: ['node-3'], policy: 'fgd', quotas: 'nlp=8', horizonHours: '168' }

  it('is sent whole', () => {
    expect(makeBody(change)).toEqual({
      add: [{ nodes: 1, cards: 4, model: 'L40S' }],
      remove: ['node-3'],
      policy: 'fgd',
      sharing: null,
      nominal_milli: { nlp: 8000 },
      horizon_seconds: 604_800,
    })
    expect(makeBody({ ...change, add: 'more' })).toBeNull()
  })

  it('is the same as a command', () => {
    expect(writeCommand(change)).toBe(
      'gpupool whatif --add 4xL40S --remove node-3 --policy fgd --quota nlp=8 --horizon 168h',
    )
    expect(writeCommand({ ...NO_CHANGE, policy: 'fgd burst' })).toBe('gpupool whatif --policy fgd,burst')
    expect(writeCommand(NO_CHANGE)).toBe('gpupool whatif')
  })
})
