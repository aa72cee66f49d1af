import { expect, it } from 'vitest'
import { findNext, type Schedule, writeCommand } from './schedules'

it('the next instant is that of an active schedule', () => {
  const schedules = [{ next_ns: 30 }, { next_ns: null }, { next_ns: 20 }] as Schedule[]
  expect(findNext(schedules)).toBe(20)
  expect(findNext([{ next_ns: null } as Schedule])).toBeNull()
})

it('a command is quoted where a shell would split it', () => {
  expect(writeCommand(['python', 'train.py', '--name', "ada's run"])).toBe("python train.py --name 'ada'\\''s run'")
})
