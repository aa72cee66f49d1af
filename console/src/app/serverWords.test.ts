import i18next from 'i18next'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Problem, readProblem } from '../api/problem'
import reasons from '../locales/zhReasons'
import { findProblem } from '../ui/FormDialog'
import { findTitle, prepareLanguage, setReasons, translateText } from './serverWords'

const REFUSAL = {
  title: 'already there',
  status: 409,
  detail: "there is already a user 'ada'",
  code: 'GP-2006',
  hint: 'gpupool user list',
}

function answer(body: object): Response {
  return new Response(JSON.stringify(body), { status: 409, headers: { 'Content-Type': 'application/problem+json' } })
}

const before = i18next.language

beforeAll(async () => {
  if (!i18next.isInitialized) await i18next.init({ lng: 'en', resources: {} })
  setReasons(reasons)
  await i18next.changeLanguage('zh')
})
afterAll(async () => {
  await i18next.changeLanguage(before ?? 'en')
})

describe('a refusal on a Chinese page', () => {
  it('is Chinese as soon as it is read', async () => {
    const problem = await readProblem(answer(REFUSAL))
    expect(problem.message).toBe(REFUSAL.detail)
    expect(translateText(problem.message)).toBe("已有用户 'ada'")
    expect(findTitle(problem.code)).toBe('名称已被占用')
    expect(findProblem(problem, 'name', { 'GP-2006': 'name' })).toBe("已有用户 'ada' (GP-2006)")
  })

  it('stays as it is where the catalogue lacks it', async () => {
    const problem = new Problem({ ...REFUSAL, detail: 'a newer server says more than this page knows' })
    expect(translateText(problem.message)).toBe(problem.message)
  })

  it('is translated line by line', () => {
    const lines = "there is already a user 'ada'\na newer server says more than this\nno tenant 'nlp'"
    expect(translateText(lines)).toBe("已有用户 'ada'\na newer server says more than this\n没有租户 'nlp'")
  })

  it('is English again on an English page', async () => {
    await i18next.changeLanguage('en')
    expect(translateText(REFUSAL.detail)).toBe(REFUSAL.detail)
    expect(findTitle(REFUSAL.code)).toBe('')
    await prepareLanguage('zh')
    await i18next.changeLanguage('zh')
    expect(translateText(REFUSAL.detail)).toBe("已有用户 'ada'")
  })
})
