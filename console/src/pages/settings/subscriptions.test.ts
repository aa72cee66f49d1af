import { describe, expect, it } from 'vitest'
import { type Draft, findFaults, makeBody } from './subscriptions'

const draft: Draft = {
  name: ' me ',
  format: 'mail',
  address: 'ada@example.com',
  secret: 'left over',
  topics: ['job-failed'],
  scope: 'mine',
  waitingMinutes: '30',
  quietHours: '22:00-07:00',
  digestMinutes: '0',
}

describe('a subscription', () => {
  it('is sent in seconds, and its secret with formats that sign alone', () => {
    const body = makeBody(draft, 'zh', 'Asia/Shanghai')
    expect(body).toMatchObject({ name: 'me', waiting_seconds: 1800, digest_seconds: 0, secret: '', language: 'zh' })
    expect(makeBody({ ...draft, format: 'webhook' }, 'en', 'UTC').secret).toBe('left over')
    expect(findFaults(draft).size).toBe(0)
  })

  it('names its faults', () => {
    const wrong = {
      ...draft,
      name: '',
      format: 'slack' as const,
      topics: [],
      waitingMinutes: '0',
      quietHours: '25:00-7',
    }
    expect([...findFaults(wrong)].sort()).toEqual(['address', 'name', 'quietHours', 'topics', 'waitingMinutes'])
  })
})
