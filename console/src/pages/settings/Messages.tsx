// My subscriptions to messages, each with a test, and what became of the messages.
import { Button, Checkbox, PasswordInput, Select, TextInput } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { apiPath, send } from '../../api/lists'
import type { components } from '../../api/schema'
import type { Session } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatClock, formatNumber } from '../../ui/format'
import { Empty, Fact, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { ServerText } from '../../ui/ServerText'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import {
  type Delivery,
  type Draft,
  type Fault,
  FORMATS,
  findFaults,
  makeBody,
  SIGNED,
  type Subscription,
  TOPICS,
} from './subscriptions'

type Tested = components['schemas']['DeliveryTestOut']
const DELIVERIES_READ = 100

const pathOf = (row: Subscription, ...parts: string[]) =>
  `${apiPath('subscriptions', row.name, ...parts)}?${new URLSearchParams({ user: row.user })}`

export function Messages({ session }: { session: Session | undefined }) {
  const { t } = useTranslation('settings')
  const client = useQueryClient()
  const [isCreating, setCreating] = useState(false)
  const [ending, setEnding] = useState<Subscription | null>(null)
  const subscriptions = useQuery({
    queryKey: ['settings', 'subscriptions'],
    queryFn: () => request<Subscription[]>('/api/v1/subscriptions'),
  })
  const deliveries = useQuery({
    queryKey: ['settings', 'deliveries'],
    queryFn: () => request<Delivery[]>(`/api/v1/deliveries?limit=${DELIVERIES_READ}`),
  })
  const test = useMutation({ mutationFn: (row: Subscription) => send<Tested>('POST', pathOf(row, 'test')) })
  const rows = subscriptions.data ?? []
  const done = () => {
    setCreating(false)
    setEnding(null)
    void client.invalidateQueries({ queryKey: ['settings'] })
  }
  const columns: Column<Subscription>[] = [
    { title: t('name'), cell: (row) => <span className="strong">{row.name}</span> },
    { title: t('user'), minor: true, cell: (row) => row.user },
    { title: t('to'), cell: (row) => <span className="word">{`${t(`format.${row.format}`)}: ${row.address}`}</span> },
    { title: t('on'), cell: (row) => row.topics.map((topic) => t(`topic.${topic}`)).join(', ') },
    { title: t('scope'), minor: true, cell: (row) => t(`scope.${row.scope}`) },
    { title: t('quiet'), minor: true, cell: (row) => row.quiet_hours || t('none') },
    { title: t('waiting'), right: true, minor: true, cell: (row) => formatNumber(row.waiting) },
    { title: t('dead'), right: true, minor: true, cell: (row) => formatNumber(row.dead) },
    {
      title: <span className="sr">{t('acts')}</span>,
      right: true,
      cell: (row) => (
        <span className="acts">
          <Button
            size="compact-xs"
            variant="default"
            aria-label={`${t('test')} ${row.name}`}
            loading={test.isPending && test.variables === row}
            onClick={() => test.mutate(row)}
          >
            {t('test')}
          </Button>
          <Button
            size="compact-xs"
            variant="default"
            aria-label={`${t('delete')} ${row.name}`}
            onClick={() => setEnding(row)}
          >
            {t('delete')}
          </Button>
        </span>
      ),
    },
  ]
  const deliveryColumns: Column<Delivery>[] = [
    { title: t('when'), cell: (row) => <span className="nowrap">{formatClock(row.at_ns)}</span> },
    { title: t('name'), cell: (row) => row.subscription },
    { title: t('on'), cell: (row) => t(`topic.${row.topic}`) },
    { title: t('about'), minor: true, cell: (row) => <span className="word">{row.subject}</span> },
    { title: t('state'), cell: (row) => <State state={row.state} /> },
    { title: t('attempts'), right: true, minor: true, cell: (row) => formatNumber(row.attempts) },
    {
      title: t('error'),
      minor: true,
      cell: (row) => (
        <span className="word">
          <ServerText text={row.error ?? ''} />
        </span>
      ),
    },
  ]
  const create = (
    <Button size="xs" onClick={() => setCreating(true)}>
      {t('newSubscription')}
    </Button>
  )
  return (
    <div className="grid">
      <Panel title={t('subscriptions')} right={rows.length > 0 && create}>
        <Answer query={subscriptions}>
          {subscriptions.isSuccess && rows.length === 0 && <Empty action={create}>{t('noSubscriptions')}</Empty>}
          {rows.length > 0 && (
            <Table
              label={t('subscriptions')}
              columns={columns}
              rows={rows}
              rowKey={(row) => `${row.user} ${row.name}`}
            />
          )}
        </Answer>
        <div role="status" className="gap small">
          {test.data && (
            <span className="row wrap">
              <State state={test.data.delivered ? 'sent' : 'fail'} />
              {test.variables?.name}
              {test.data.error && <ServerText text={test.data.error} />}
            </span>
          )}
        </div>
        {test.isError && <Refusal error={test.error} />}
      </Panel>
      <Panel title={t('deliveries')} hint={t('deliveriesHint', { count: DELIVERIES_READ })}>
        <Answer query={deliveries}>
          {deliveries.data?.length === 0 && <Empty>{t('noDeliveries')}</Empty>}
          {deliveries.data && deliveries.data.length > 0 && (
            <Table label={t('deliveries')} columns={deliveryColumns} rows={deliveries.data} rowKey={(row) => row.id} />
          )}
        </Answer>
      </Panel>
      {isCreating && <SubscriptionDialog session={session} onDone={done} onClose={() => setCreating(false)} />}
      {ending !== null && (
        <FormDialog
          title={t('deleteTitle', { name: ending.name })}
          confirm={t('deleteNow')}
          danger
          act={() => send('DELETE', pathOf(ending))}
          onDone={done}
          onClose={() => setEnding(null)}
        >
          {() => (
            <>
              <dl className="facts left">
                <Fact name={t('to')}>{ending.address}</Fact>
                <Fact name={t('waiting')}>{formatNumber(ending.waiting)}</Fact>
              </dl>
              <p className="small">{t('deleteText')}</p>
            </>
          )}
        </FormDialog>
      )}
    </div>
  )
}

interface SubscriptionDialogProps {
  readonly session: Session | undefined
  onDone(): void
  onClose(): void
}

function SubscriptionDialog({ session, onDone, onClose }: SubscriptionDialogProps) {
  const { t, i18n } = useTranslation('settings')
  const [draft, setDraft] = useState<Draft>({
    name: '',
    format: 'mail',
    address: '',
    secret: '',
    topics: ['job-failed'],
    scope: 'mine',
    waitingMinutes: '30',
    quietHours: '',
    digestMinutes: '0',
  })
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone
  const faults = findFaults(draft)
  const set = (part: Partial<Draft>) => setDraft({ ...draft, ...part })
  const wrong = (field: Exclude<Fault, 'topics'>, problem: string | undefined) =>
    problem ?? (faults.has(field) && draft[field] !== '' ? t(`wrong.${field}`) : undefined)
  const has = (permission: string) => session?.permissions.includes(permission) ?? false
  const scopes = ['mine', ...(has('manage-tenant') ? ['tenant'] : []), ...(has('manage-pool') ? ['pool'] : [])]
  return (
    <FormDialog
      title={t('newSubscription')}
      confirm={t('subscribe')}
      isReady={faults.size === 0}
      fieldOfCode={{ 'GP-1003': 'name', 'GP-2006': 'name', 'GP-2140': 'address' }}
      wide
      act={() => send('POST', '/api/v1/subscriptions', makeBody(draft, i18n.language === 'zh' ? 'zh' : 'en', zone))}
      onDone={onDone}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <div className="row wrap fields-row">
            <TextInput
              className="third"
              label={t('name')}
              data-autofocus
              value={draft.name}
              error={wrong('name', problem('name'))}
              onChange={(event) => set({ name: event.currentTarget.value })}
            />
            <Select
              className="third"
              label={t('channel')}
              allowDeselect={false}
              data={FORMATS.map((value) => ({ value, label: t(`format.${value}`) }))}
              value={draft.format}
              onChange={(value) => set({ format: (value as Draft['format'] | null) ?? draft.format })}
            />
          </div>
          <TextInput
            label={t(draft.format === 'mail' ? 'mailAddress' : 'url')}
            value={draft.address}
            error={wrong('address', problem('address'))}
            onChange={(event) => set({ address: event.currentTarget.value })}
          />
          {SIGNED.has(draft.format) && (
            <PasswordInput
              label={t('secret')}
              description={t('secretHint')}
              autoComplete="off"
              value={draft.secret}
              error={problem('secret')}
              onChange={(event) => set({ secret: event.currentTarget.value })}
            />
          )}
          <Checkbox.Group
            label={t('on')}
            value={draft.topics}
            error={faults.has('topics') ? t('wrong.topics') : problem('topics')}
            onChange={(topics) => set({ topics })}
          >
            <div className="row wrap">
              {TOPICS.map((topic) => (
                <Checkbox key={topic} size="xs" value={topic} label={t(`topic.${topic}`)} />
              ))}
            </div>
          </Checkbox.Group>
          <div className="row wrap fields-row">
            {scopes.length > 1 && (
              <Select
                className="third"
                label={t('scope')}
                allowDeselect={false}
                data={scopes.map((value) => ({ value, label: t(`scope.${value}`) }))}
                value={draft.scope}
                error={problem('scope')}
                onChange={(value) => set({ scope: (value as Draft['scope'] | null) ?? draft.scope })}
              />
            )}
            {(['waitingMinutes', 'quietHours', 'digestMinutes'] as const).map((field) => (
              <TextInput
                key={field}
                className="third"
                label={t(`field.${field}`)}
                placeholder={field === 'quietHours' ? '22:00-07:00' : undefined}
                value={draft[field]}
                error={wrong(
                  field,
                  problem(
                    { waitingMinutes: 'waiting_seconds', quietHours: 'quiet_hours', digestMinutes: 'digest_seconds' }[
                      field
                    ],
                  ),
                )}
                onChange={(event) => set({ [field]: event.currentTarget.value })}
              />
            ))}
          </div>
          <p className="small sub">{t('inYourLanguage', { zone })}</p>
        </>
      )}
    </FormDialog>
  )
}
