import { describe, expect, it } from 'vitest'
import { networkPath, parsePorts, sumAddresses, toMbit, writePorts } from './networks'

describe('ports', () => {
  it('are one, a range, or all', () => {
    expect(parsePorts('443')).toEqual({ first_port: 443, last_port: 443 })
    expect(parsePorts(' 8000 - 8100 ')).toEqual({ first_port: 8000, last_port: 8100 })
    expect(parsePorts('')).toEqual({ first_port: null, last_port: null })
  })

  it.each(['0', '70000', '9-5', 'http', '1-2-3'])('are not %s', (text) => {
    expect(parsePorts(text)).toBeNull()
  })

  it('are written as they are typed', () => {
    expect(writePorts({ first_port: 443, last_port: 443 })).toBe('443')
    expect(writePorts({ first_port: 8000, last_port: 8100 })).toBe('8000-8100')
    expect(writePorts({ first_port: null, last_port: null })).toBe('')
  })
})

it('a path names network and tenant as they are', () => {
  expect(networkPath({ tenant: 'a b', name: 'x/y' }, 'limits')).toBe('/api/v1/networks/x%2Fy/limits?tenant=a+b')
})

it('an unlimited rate is unknown, not 0', () => {
  expect(toMbit(null)).toBeNull()
  expect(toMbit(250_000)).toBe(250)
})

it('addresses are summed over subnets', () => {
  const subnets = [
    { used: 1, free: 2 },
    { used: 3, free: 4 },
  ]
  expect(sumAddresses({ subnets } as never)).toEqual({ used: 4, free: 6 })
})
