// Reserve cards for a time; what is reserved at the same time is shown before.
import { Select, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { listAll, send } from '../../api/lists'
import type { components } from '../../api/schema'
import { FormDialog } from '../../ui/FormDialog'
import { formatClock } from '../../ui/format'
import { Held } from './ReservationsPage'
import {
  type Draft,
  type Fault,
  findFaults,
  findOverlaps,
  formatField,
  formatHours,
  makeBody,
  nextHour,
  REPEATS,
  type Repeat,
  type Reservation,
} from './reservations'
import type { TimeSpan } from './timeSpan'

type Tenant = components['schemas']['TenantOut']
type Capacity = components['schemas']['CapacityOut']

interface ReservationDialogProps {
  readonly reservations: readonly Reservation[]
  readonly tenant: string
  readonly isPoolAdmin: boolean
  /** The time that was drawn; null: the next hour. */
  readonly span: TimeSpan | null
  onDone(): void
  onClose(): void
}

export function ReservationDialog(props: ReservationDialogProps) {
  const { reservations, tenant, isPoolAdmin, span, onDone, onClose } = props
  const { t } = useTranslation('reservations')
  const [draft, setDraft] = useState<Draft>(() => ({
    name: '',
    tenant,
    gpu: '1',
    count: '1',
    replicas: '1',
    memoryGib: '',
    model: '',
    start: span === null ? nextHour(Date.now()) : formatField(span.fromMs),
    hours: span === null ? '4' : formatHours(span.toMs - span.fromMs),
    repeat: 'never',
    until: '',
  }))
  const tenants = useQuery({
    queryKey: ['people', 'tenants'],
    queryFn: () => listAll<Tenant>('/api/v1/tenants'),
    enabled: isPoolAdmin,
  })
  const capacity = useQuery({
    queryKey: ['capacity'],
    queryFn: () => request<Capacity>('/api/v1/capacity'),
  })
  const faults = findFaults(draft)
  const set = (part: Partial<Draft>) => setDraft({ ...draft, ...part })
  const wrong = (field: Fault, problem: string | undefined) =>
    problem ?? (faults.has(field) && draft[field] !== '' ? t(`wrong.${field}`) : undefined)
  const overlaps = faults.size === 0 ? findOverlaps(toCalendar(draft), reservations) : []
  const text = (field: Exclude<keyof Draft, 'repeat' | 'tenant'>, more: object, problem?: string) => (
    <TextInput
      className="third"
      label={t(`field.${field}`)}
      value={draft[field]}
      error={wrong(field as Fault, problem)}
      onChange={(event) => set({ [field]: event.currentTarget.value })}
      {...more}
    />
  )
  return (
    <FormDialog
      title={t('reserve')}
      confirm={t('reserveNow')}
      isReady={faults.size === 0}
      fieldOfCode={{ 'GP-1003': 'name', 'GP-2006': 'name', 'GP-1004': 'start_ns', 'GP-3004': 'tenant' }}
      wide
      act={() => send('POST', '/api/v1/reservations', makeBody(draft))}
      onDone={onDone}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <div className="row wrap fields-row">
            {text('name', { 'data-autofocus': true }, problem('name'))}
            {isPoolAdmin && (
              <Select
                className="third"
                label={t('tenant')}
                searchable
                allowDeselect={false}
                data={[...new Set([...(tenants.data ?? []).map((each) => each.name), draft.tenant])]}
                value={draft.tenant}
                error={problem('tenant')}
                onChange={(value) => set({ tenant: value ?? draft.tenant })}
              />
            )}
          </div>
          <div className="row wrap fields-row">
            {text('gpu', { inputMode: 'decimal' }, problem('gpu_milli'))}
            {text('count', { inputMode: 'numeric' }, problem('count'))}
            {text('replicas', { inputMode: 'numeric' }, problem('replicas'))}
            {text('memoryGib', { inputMode: 'decimal', placeholder: t('byShare') }, problem('memory_bytes'))}
            <Select
              className="third"
              label={t('field.model')}
              placeholder={t('anyModel')}
              clearable
              data={(capacity.data?.models ?? []).map((model) => model.model)}
              value={draft.model || null}
              error={problem('model')}
              onChange={(value) => set({ model: value ?? '' })}
            />
          </div>
          <div className="row wrap fields-row">
            {text('start', { type: 'datetime-local' }, problem('start_ns'))}
            {text('hours', { inputMode: 'decimal', placeholder: t('open') }, problem('end_ns'))}
            <Select
              className="third"
              label={t('repeats')}
              allowDeselect={false}
              data={(Object.keys(REPEATS) as Repeat[]).map((value) => ({ value, label: t(`repeat.${value}`) }))}
              value={draft.repeat}
              onChange={(value) => set({ repeat: (value as Repeat | null) ?? draft.repeat })}
            />
            {draft.repeat !== 'never' && text('until', { type: 'datetime-local' }, problem('until_ns'))}
          </div>
          <div className="small" role="status">
            {overlaps.length > 0 && (
              <>
                <b>{t('overlaps', { count: overlaps.length })}</b>
                <ul className="hints">
                  {overlaps.map((other) => (
                    <li key={other.id}>
                      {other.tenant} / {other.name}: <Held reservation={other} />, {formatClock(other.start_ns)} –{' '}
                      {other.end_ns === null ? t('open') : formatClock(other.end_ns)}
                    </li>
                  ))}
                </ul>
                <p className="sub">{t('overlapText')}</p>
              </>
            )}
          </div>
        </>
      )}
    </FormDialog>
  )
}

function toCalendar(draft: Draft): Pick<Reservation, 'start_ns' | 'end_ns' | 'every_seconds' | 'until_ns'> {
  const body = makeBody(draft)
  return {
    start_ns: body.start_ns,
    end_ns: body.end_ns ?? null,
    every_seconds: body.every_seconds ?? null,
    until_ns: body.until_ns ?? null,
  }
}
