import i18next from 'i18next'
import { beforeAll, describe, expect, it } from 'vitest'
import {
  formatAmount,
  formatBytes,
  formatClock,
  formatDuration,
  formatPercent,
  formatShare,
  GIB,
  UNKNOWN,
} from './format'

beforeAll(async () => {
  await i18next.init({ lng: 'en', resources: {} })
})

const plain = (text: string) => text.replaceAll('\u00a0', ' ')

describe('amounts', () => {
  it('shows a share in both units', () => {
    expect(plain(formatShare(300, 8 * GIB))).toBe('0.30 GPU + 8 GiB')
    expect(plain(formatShare(1000, 141 * GIB, 8))).toBe('8 × 1.00 GPU + 141 GiB')
  })

  it('shows an unknown amount as unknown, and a known zero as zero', () => {
    expect(formatBytes(null)).toBe(UNKNOWN)
    expect(plain(formatBytes(0))).toBe('0 GiB')
    expect(formatPercent(undefined)).toBe(UNKNOWN)
    expect(plain(formatPercent(0))).toBe('0 %')
  })

  it('shows less than one GiB in MiB', () => {
    expect(plain(formatBytes(512 * 1024 ** 2))).toBe('512 MiB')
  })
})

describe('durations', () => {
  it.each([
    [0, '0 s'],
    [59.4, '59 s'],
    [2700, '45 m'],
    [7500, '2 h 05 m'],
    [273600, '3 d 4 h'],
  ])('%d seconds', (seconds, text) => {
    expect(plain(formatDuration(seconds))).toBe(text)
  })
})

describe('clock', () => {
  const now = new Date(2026, 10, 23, 10, 24)
  const ns = (date: Date) => date.getTime() * 1e6

  it('names the day when it is not today', () => {
    expect(formatClock(ns(new Date(2026, 10, 23, 13, 10)), now)).toBe('13:10')
    expect(plain(formatClock(ns(new Date(2026, 10, 24, 0, 5)), now))).toBe('Tue 00:05')
    expect(plain(formatClock(ns(new Date(2026, 11, 24, 9, 0)), now))).toBe('24 Dec 2026 09:00')
  })

  it('shows a small amount by more digits than 0.0', () => {
    expect([0, 0.0156, 0.5, 12.34, 0.00001, null].map((value) => formatAmount(value, 1))).toEqual([
      '0.0',
      '0.02',
      '0.5',
      '12.3',
      '0.0000',
      UNKNOWN,
    ])
  })
})
