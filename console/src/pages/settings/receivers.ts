/** To whom the pool's messages may go: its mail server, and hosts that webhooks are sent to. */
import { getTagged, putTagged, type Tagged } from '../../api/lists'
import type { components } from '../../api/schema'

type Schemas = components['schemas']
export type Settings = Schemas['NotificationSettingsOut']
export type SettingsBody = Schemas['NotificationSettingsIn']
export type MailServer = Schemas['MailServerOut']
export type MailBody = Schemas['MailServerIn']
export type Host = Settings['hosts'][number]
export type Security = NonNullable<MailBody['security']>

export const SECURITIES: readonly Security[] = ['starttls', 'tls', 'none']
/** The port that a mail server usually has with each security. */
export const USUAL_PORTS: Readonly<Record<Security, string>> = { starttls: '587', tls: '465', none: '25' }
const MOST_PORT = 65_535
const PATH = '/api/v1/notification-settings'

/** A mail server as it is typed; the password is empty where it stays. */
export interface MailDraft {
  host: string
  port: string
  security: Security
  sender: string
  user: string
  password: string
}

export const makeMailDraft = (mail: MailServer | null): MailDraft => ({
  host: mail?.host ?? '',
  port: String(mail?.port ?? USUAL_PORTS.starttls),
  security: (mail?.security ?? 'starttls') as Security,
  sender: mail?.sender ?? '',
  user: mail?.user ?? '',
  password: '',
})

export function findMailFaults(draft: MailDraft): Set<keyof MailDraft> {
  const faults = new Set<keyof MailDraft>()
  const port = Number(draft.port)
  if (draft.host.trim() === '') faults.add('host')
  if (!/^\d+$/.test(draft.port.trim()) || port < 1 || port > MOST_PORT) faults.add('port')
  if (!/^[!-~]+@[!-~]+$/.test(draft.sender.trim())) faults.add('sender')
  return faults
}

export const makeMailBody = (draft: MailDraft): MailBody => ({
  host: draft.host.trim(),
  port: Number(draft.port),
  security: draft.security,
  sender: draft.sender.trim(),
  user: draft.user.trim(),
  // The server keeps the one of the same host and user.
  password: draft.password === '' ? null : draft.password,
})

/** Whether a password that stays empty is the one that is kept. */
export const keepsPassword = (draft: MailDraft, mail: MailServer | null): boolean =>
  mail?.has_password === true && mail.host === draft.host.trim() && mail.user === draft.user.trim()

/** The hosts with one of them added, or as it is from now on. */
export const withHost = (hosts: readonly Host[], host: Host): Host[] => [
  ...hosts.filter((each) => each.host !== host.host),
  host,
]

export const withoutHost = (hosts: readonly Host[], name: string): Host[] => hosts.filter((each) => each.host !== name)

export const fetchSettings = (): Promise<Tagged<Settings>> => getTagged<Settings>(PATH)
export const putSettings = (tag: string, body: SettingsBody): Promise<Tagged<Settings>> =>
  putTagged<Settings>(PATH, tag, body)
