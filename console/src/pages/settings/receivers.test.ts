import { expect, it } from 'vitest'
import {
  findMailFaults,
  keepsPassword,
  type MailServer,
  makeMailBody,
  makeMailDraft,
  withHost,
  withoutHost,
} from './receivers'

const mail: MailServer = {
  host: 'smtp.example.com',
  port: 465,
  security: 'tls',
  sender: 'a@example.com',
  user: 'u',
  has_password: true,
}

it('an empty password is left to the server, and stays with its host and user', () => {
  const draft = makeMailDraft(mail)
  expect(makeMailBody(draft)).toEqual({
    host: mail.host,
    port: 465,
    security: 'tls',
    sender: mail.sender,
    user: 'u',
    password: null,
  })
  expect(keepsPassword(draft, mail)).toBe(true)
  expect(keepsPassword({ ...draft, host: 'other.example.com' }, mail)).toBe(false)
})

it('says what no mail server can have', () => {
  expect(findMailFaults(makeMailDraft(null))).toEqual(new Set(['host', 'sender']))
  expect(findMailFaults({ ...makeMailDraft(mail), port: '70000' })).toEqual(new Set(['port']))
})

it('a host is in the list once', () => {
  const one = { host: 'a.example', private: false, plain: false }
  expect(withHost([one], { ...one, plain: true })).toEqual([{ ...one, plain: true }])
  expect(withoutHost([one], 'a.example')).toEqual([])
})
