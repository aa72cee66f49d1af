import { describe, expect, it } from 'vitest'
import { decideFollowing } from './follow'

const at = (scrollTop: number, scrollHeight = 1000) => ({ scrollTop, scrollHeight, clientHeight: 200 })

describe('decideFollowing', () => {
  it('ends where the viewer goes up, and begins again at the end', () => {
    expect(decideFollowing(true, 800, at(620))).toBe(false)
    expect(decideFollowing(false, 620, at(690))).toBe(false)
    expect(decideFollowing(false, 690, at(800))).toBe(true)
    expect(decideFollowing(false, 690, at(800, 1060))).toBe(true)
  })

  it('goes on while lines come, and where a correction moves the end a little', () => {
    expect(decideFollowing(true, 800, at(900, 1300))).toBe(true)
    expect(decideFollowing(true, 800, at(795))).toBe(true)
  })

  it('stays off where it was switched off at the end', () => {
    expect(decideFollowing(false, 800, at(800))).toBe(false)
  })
})
