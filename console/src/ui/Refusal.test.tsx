import i18next from 'i18next'
import { renderToStaticMarkup } from 'react-dom/server'
import { initReactI18next } from 'react-i18next'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readProblem } from '../api/problem'
import { setReasons } from '../app/serverWords'
import reasons from '../locales/zhReasons'
import { Refusal } from './Refusal'

const before = i18next.language

async function draw(detail: string, language: string): Promise<string> {
  const hint = 'ask an admin for another role: gpupool user set NAME --role ROLE'
  const body = { title: 'No permission', status: 403, code: 'GP-3002', detail, hint }
  await i18next.changeLanguage(language)
  return renderToStaticMarkup(<Refusal error={await readProblem(new Response(JSON.stringify(body)))} />)
}

beforeAll(async () => {
  if (!i18next.isInitialized) await i18next.init({ lng: 'en', resources: {} })
  initReactI18next.init(i18next)
  setReasons(reasons)
})
afterAll(async () => {
  await i18next.changeLanguage(before ?? 'en')
})

it('is Chinese on a Chinese page, with the command as it is typed', async () => {
  const drawn = await draw('only an admin sets quotas', 'zh')
  expect(drawn).toContain('<b>只有管理员可以设置配额</b>')
  expect(drawn).toContain('请管理员给予另一个角色：gpupool user set NAME --role ROLE')
  expect(drawn).toContain('GP-3002')
  expect(drawn).not.toContain('admin')
})

it('has the title of its code above a sentence without Chinese', async () => {
  const drawn = await draw('a newer server says more than this page knows', 'zh')
  expect(drawn).toContain('<b>没有权限</b><p lang="en">a newer server says more than this page knows</p>')
})

it('is as the server wrote it on an English page', async () => {
  const drawn = await draw('only an admin sets quotas', 'en')
  expect(drawn).toContain('<b>only an admin sets quotas</b>')
  expect(drawn).toContain('ask an admin for another role')
})
