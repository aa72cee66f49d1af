import { expect, it } from 'vitest'
import { findNext, formatInZone, isDeadline, makeDraft, makeTimes, type Schedule, writeCommand } from './schedules'

it('the next instant is that of an active schedule', () => {
  const schedules = [{ next_ns: 30 }, { next_ns: null }, { next_ns: 20 }] as Schedule[]
  expect(findNext(schedules)).toBe(20)
  expect(findNext([{ next_ns: null } as Schedule])).toBeNull()
})

it('a command is quoted where a shell would split it', () => {
  expect(writeCommand(['python', 'train.py', '--name', "ada's run"])).toBe("python train.py --name 'ada'\\''s run'")
})

it('an instant is shown by the clocks of its zone', () => {
  const instant = Date.UTC(2026, 10, 29, 18, 0) * 1e6
  expect(formatInZone(instant, 'Asia/Shanghai', 'en-GB')).toContain('Mon, 30 Nov 2026')
  expect(formatInZone(instant, 'Asia/Shanghai', 'en-GB')).toContain('02:00')
})

it('a draft has the times of its schedule', () => {
  const schedule = {
    name: 'n',
    cron: '0 3 * * *',
    time_zone: 'UTC',
    overlap: 'queue',
    deadline_seconds: 600,
  } as Schedule
  const times = { cron: '0 3 * * *', time_zone: 'UTC', overlap: 'queue', deadline_seconds: 600 }
  expect(makeTimes(makeDraft(schedule, 'Asia/Shanghai'))).toEqual(times)
  expect([isDeadline('0'), isDeadline(''), isDeadline('10080')]).toEqual([false, false, true])
})
