// The pool's mail server and the hosts that messages may be sent to, each with its form.
import { Button, Checkbox, PasswordInput, Select, TextInput } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Tagged } from '../../api/lists'
import { Answer } from '../../ui/Answer'
import { Conflict, useConflict } from '../../ui/Conflict'
import { FormDialog } from '../../ui/FormDialog'
import { Empty, Fact, Panel } from '../../ui/Page'
import { type Column, Table } from '../../ui/Table'
import {
  fetchSettings,
  findMailFaults,
  type Host,
  keepsPassword,
  type MailDraft,
  makeMailBody,
  makeMailDraft,
  putSettings,
  SECURITIES,
  type Security,
  type Settings,
  USUAL_PORTS,
  withHost,
  withoutHost,
} from './receivers'

type Open = { act: 'mail' } | { act: 'host'; host: Host | null } | { act: 'remove'; host: Host }

export function Receivers() {
  const { t } = useTranslation('settings')
  const client = useQueryClient()
  const [open, setOpen] = useState<Open | null>(null)
  const found = useQuery({ queryKey: ['settings', 'receivers'], queryFn: fetchSettings })
  const settings = found.data
  const close = () => setOpen(null)
  const done = () => {
    close()
    void client.invalidateQueries({ queryKey: ['settings', 'receivers'] })
  }
  const columns: Column<Host>[] = [
    { title: t('host'), cell: (host) => <span className="mono">{host.host}</span> },
    { title: t('private'), cell: (host) => t(host.private ? 'yes' : 'no') },
    { title: t('plain'), cell: (host) => t(host.plain ? 'yes' : 'no') },
    {
      title: <span className="sr">{t('acts')}</span>,
      right: true,
      cell: (host) => (
        <span className="acts">
          <Button
            size="compact-xs"
            variant="default"
            aria-label={`${t('change')} ${host.host}`}
            onClick={() => setOpen({ act: 'host', host })}
          >
            {t('change')}
          </Button>
          <Button
            size="compact-xs"
            variant="default"
            aria-label={`${t('deny')} ${host.host}`}
            onClick={() => setOpen({ act: 'remove', host })}
          >
            {t('deny')}
          </Button>
        </span>
      ),
    },
  ]
  const mail = settings?.body.mail ?? null
  const hosts = settings?.body.hosts ?? []
  const allow = (
    <Button size="xs" variant="default" onClick={() => setOpen({ act: 'host', host: null })}>
      {t('allowHost')}
    </Button>
  )
  return (
    <Panel title={t('receivers')} hint={t('receiversHint')}>
      <Answer query={found}>
        {settings && (
          <div className="grid">
            <dl className="facts left">
              <Fact name={t('mail')}>
                {mail ? t('mailText', { host: mail.host, port: mail.port, security: mail.security }) : t('mailNone')}
              </Fact>
              {mail && <Fact name={t('sender')}>{mail.sender}</Fact>}
              {mail && (
                <Fact name={t('mailUser')}>
                  {mail.user || t('mailUserNone')}
                  {mail.user && ` (${t(mail.has_password ? 'passwordKept' : 'passwordNone')})`}
                </Fact>
              )}
            </dl>
            <div className="row wrap">
              <Button size="xs" variant="default" onClick={() => setOpen({ act: 'mail' })}>
                {t(mail ? 'changeMail' : 'setMail')}
              </Button>
              {hosts.length > 0 && allow}
            </div>
            {hosts.length === 0 ? (
              <Empty action={allow}>
                {t('noHosts')} <code className="mono">gpupool notify allow hooks.example.com</code>
              </Empty>
            ) : (
              <Table label={t('receivers')} columns={columns} rows={hosts} rowKey={(host) => host.host} />
            )}
          </div>
        )}
      </Answer>
      {settings && open?.act === 'mail' && <MailDialog settings={settings} onDone={done} onClose={close} />}
      {settings && open?.act === 'host' && (
        <HostDialog settings={settings} host={open.host} onDone={done} onClose={close} />
      )}
      {settings && open?.act === 'remove' && (
        <DenyDialog settings={settings} host={open.host} onDone={done} onClose={close} />
      )}
    </Panel>
  )
}

interface DialogProps {
  readonly settings: Tagged<Settings>
  onDone(): void
  onClose(): void
}

function MailDialog({ settings, onDone, onClose }: DialogProps) {
  const { t } = useTranslation('settings')
  const before = settings.body.mail ?? null
  const [draft, setDraft] = useState<MailDraft>(() => makeMailDraft(before))
  const conflict = useConflict<Settings>(settings.tag, fetchSettings)
  const faults = findMailFaults(draft)
  const known = conflict.theirs === null ? before : (conflict.theirs.body.mail ?? null)
  const set = (part: Partial<MailDraft>) => setDraft({ ...draft, ...part })
  const wrong = (field: keyof MailDraft, problem: string | undefined) =>
    problem ?? (faults.has(field) && draft[field] !== '' ? t(`wrongMail.${field}`) : undefined)
  return (
    <FormDialog
      title={t(before ? 'changeMailTitle' : 'setMailTitle')}
      confirm={t('saveMail')}
      isReady={faults.size === 0}
      act={() => conflict.guard((tag) => putSettings(tag, { mail: makeMailBody(draft) }))}
      onDone={onDone}
      onClose={onClose}
      below={(error) => (
        <Conflict
          error={error}
          state={conflict}
          words={({ mail }) =>
            t('theirMail', {
              server: mail
                ? t('mailText', { host: mail.host, port: mail.port, security: mail.security })
                : t('mailNone'),
            })
          }
          take={({ mail }) => setDraft(makeMailDraft(mail ?? null))}
        />
      )}
    >
      {(problem) => (
        <>
          <div className="row wrap fields-row">
            <TextInput
              className="third"
              label={t('host')}
              placeholder="smtp.example.com"
              data-autofocus
              value={draft.host}
              error={wrong('host', problem('host'))}
              onChange={(event) => set({ host: event.currentTarget.value })}
            />
            <Select
              className="third"
              label={t('security')}
              allowDeselect={false}
              data={SECURITIES.map((value) => ({ value, label: t(`securities.${value}`) }))}
              value={draft.security}
              onChange={(value) => {
                const security = (value as Security | null) ?? draft.security
                // A port that is not the usual one stays.
                const isUsual = draft.port === USUAL_PORTS[draft.security]
                set({ security, ...(isUsual ? { port: USUAL_PORTS[security] } : {}) })
              }}
            />
            <TextInput
              className="third"
              label={t('port')}
              inputMode="numeric"
              value={draft.port}
              error={wrong('port', problem('port'))}
              onChange={(event) => set({ port: event.currentTarget.value })}
            />
          </div>
          <TextInput
            label={t('sender')}
            placeholder="gpupool@example.com"
            value={draft.sender}
            error={wrong('sender', problem('sender'))}
            onChange={(event) => set({ sender: event.currentTarget.value })}
          />
          <TextInput
            label={t('mailUser')}
            placeholder={t('mailUserNone')}
            autoComplete="off"
            value={draft.user}
            error={problem('user')}
            onChange={(event) => set({ user: event.currentTarget.value })}
          />
          <PasswordInput
            label={t('password')}
            description={keepsPassword(draft, known) ? t('passwordStays') : undefined}
            autoComplete="new-password"
            value={draft.password}
            error={problem('password')}
            onChange={(event) => set({ password: event.currentTarget.value })}
          />
          <p className="small sub">{t('mailTest')}</p>
        </>
      )}
    </FormDialog>
  )
}

const nameHosts = (settings: Settings): string => settings.hosts.map((each) => each.host).join(', ') || '--'

function HostDialog({ settings, host, onDone, onClose }: DialogProps & { readonly host: Host | null }) {
  const { t } = useTranslation('settings')
  const [draft, setDraft] = useState<Host>(host ?? { host: '', private: false, plain: false })
  const conflict = useConflict<Settings>(settings.tag, fetchSettings)
  const base = conflict.theirs?.body ?? settings.body
  const act = () => {
    const entry = { ...draft, host: draft.host.trim().toLowerCase() }
    return conflict.guard((tag) => putSettings(tag, { hosts: withHost(base.hosts, entry) }))
  }
  return (
    <FormDialog
      title={host === null ? t('allowHost') : t('changeHost', { host: host.host })}
      confirm={t('saveHost')}
      isReady={draft.host.trim() !== ''}
      act={act}
      onDone={onDone}
      onClose={onClose}
      below={(error) => (
        <Conflict
          error={error}
          state={conflict}
          words={(theirs) => t('theirHosts', { hosts: nameHosts(theirs) })}
          take={(theirs) => setDraft(theirs.hosts.find((each) => each.host === draft.host) ?? draft)}
        />
      )}
    >
      {(problem) => (
        <>
          <TextInput
            label={t('host')}
            placeholder="hooks.example.com"
            data-autofocus
            disabled={host !== null}
            value={draft.host}
            error={problem('host')}
            onChange={(event) => setDraft({ ...draft, host: event.currentTarget.value })}
          />
          <Checkbox
            label={t('allowPrivate')}
            checked={draft.private}
            onChange={(event) => setDraft({ ...draft, private: event.currentTarget.checked })}
          />
          <Checkbox
            label={t('allowPlain')}
            checked={draft.plain}
            onChange={(event) => setDraft({ ...draft, plain: event.currentTarget.checked })}
          />
        </>
      )}
    </FormDialog>
  )
}

function DenyDialog({ settings, host, onDone, onClose }: DialogProps & { readonly host: Host }) {
  const { t } = useTranslation('settings')
  const conflict = useConflict<Settings>(settings.tag, fetchSettings)
  const base = conflict.theirs?.body ?? settings.body
  return (
    <FormDialog
      title={t('denyTitle', { host: host.host })}
      confirm={t('denyNow')}
      danger
      act={() => conflict.guard((tag) => putSettings(tag, { hosts: withoutHost(base.hosts, host.host) }))}
      onDone={onDone}
      onClose={onClose}
      below={(error) => (
        <Conflict
          error={error}
          state={conflict}
          words={(theirs) => t('theirHosts', { hosts: nameHosts(theirs) })}
          take={onDone}
        />
      )}
    >
      {() => <p>{t('denyText')}</p>}
    </FormDialog>
  )
}
