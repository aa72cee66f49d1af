// Set an idle policy: its steps, for which jobs, and what it would do to those that are idle now.
import { SegmentedControl, Select, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { listAll, type Tagged } from '../../api/lists'
import type { components } from '../../api/schema'
import { Conflict, useConflict } from '../../ui/Conflict'
import { FormDialog } from '../../ui/FormDialog'
import { formatCards, formatNumber } from '../../ui/format'
import { getReport, type IdlePolicy, listIdleJobs, listPolicies, putPolicy } from './idle'
import {
  ACTS,
  findFaults,
  foresee,
  type IdleKind,
  KINDS,
  makeBody,
  makeDraft,
  type PolicyBody,
  type PolicyDraft,
  type PolicyFault,
} from './policyDraft'

type Tenant = components['schemas']['TenantOut']

interface PolicyDialogProps {
  /** The policy to change, or whose steps a tenant's own begins with; null: a new one. */
  readonly policy: IdlePolicy | null
  /** A tenant whose own policy only tightens; null: an admin of the pool. */
  readonly ownTenant: string | null
  onDone(): void
  onClose(): void
}

const NEW_TAG = '"0"'
const SINCE = '7d'
const MS_PER_HOUR = 3_600_000

export function PolicyDialog({ policy, ownTenant, onDone, onClose }: PolicyDialogProps) {
  const { t } = useTranslation('idle')
  const isPoolAdmin = ownTenant === null
  // An admin of a tenant changes the tenant's own policy, and makes one of the pool's.
  const isChange = policy !== null && (isPoolAdmin || policy.by_tenant)
  const [draft, setDraft] = useState<PolicyDraft>(() => makeDraft(policy, ownTenant ?? ''))
  const tenants = useQuery({
    queryKey: ['people', 'tenants'],
    queryFn: () => listAll<Tenant>('/api/v1/tenants'),
    enabled: isPoolAdmin,
  })
  const conflict = useConflict<IdlePolicy>(isChange ? `"${policy.generation}"` : NEW_TAG, () =>
    findTheirs(makeBody(draft), !isPoolAdmin),
  )
  const faults = findFaults(draft)
  const set = (part: Partial<PolicyDraft>) => setDraft({ ...draft, ...part })
  const text = (field: Exclude<PolicyFault, (typeof ACTS)[number]>, problem: string | undefined, disabled = false) => (
    <TextInput
      className="third"
      label={t(`field.${field}`)}
      inputMode="decimal"
      disabled={disabled}
      value={draft[field]}
      error={problem ?? (faults.has(field) ? t(`wrong.${field}`) : undefined)}
      onChange={(event) => set({ [field]: event.currentTarget.value })}
    />
  )
  const kinds = KINDS.map((value) => ({ value, label: t(`kinds.${value}`) }))
  return (
    <FormDialog
      title={t(isChange ? 'changePolicy' : isPoolAdmin ? 'newPolicy' : 'tighten')}
      confirm={t('savePolicy')}
      isReady={faults.size === 0}
      fieldOfCode={{ 'GP-2180': 'steps', 'GP-2181': 'steps', 'GP-3004': 'tenant', 'GP-2052': 'project' }}
      wide
      act={() => conflict.guard((tag) => putPolicy(tag, makeBody(draft)))}
      onDone={onDone}
      onClose={onClose}
      below={(error) => (
        <Conflict
          error={error}
          state={conflict}
          words={(theirs) => t('theirPolicy', { mode: t(`modes.${theirs.mode}`), count: theirs.steps.length })}
          take={(theirs) => setDraft(makeDraft(theirs, ownTenant ?? ''))}
        />
      )}
    >
      {(problem) => (
        <>
          {!isPoolAdmin && <p className="small sub">{t('tightenText', { tenant: ownTenant })}</p>}
          <div className="row wrap fields-row">
            {isPoolAdmin && (
              <Select
                className="third"
                label={t('tenant')}
                placeholder={t('allTenants')}
                searchable
                clearable
                disabled={isChange}
                data={[...new Set([...(tenants.data ?? []).map((each) => each.name), draft.tenant])].filter(Boolean)}
                value={draft.tenant || null}
                error={problem('tenant')}
                onChange={(value) => set({ tenant: value ?? '', project: '' })}
              />
            )}
            <TextInput
              className="third"
              label={t('project')}
              placeholder={t('allProjects')}
              disabled={isChange || draft.tenant === ''}
              value={draft.project}
              error={problem('project')}
              onChange={(event) => set({ project: event.currentTarget.value })}
            />
            <Select
              className="third"
              label={t('kind')}
              placeholder={t('allKinds')}
              clearable
              disabled={isChange}
              data={kinds}
              value={draft.kind || null}
              onChange={(value) => set({ kind: (value as IdleKind | null) ?? '' })}
            />
          </div>
          <div className="row wrap fields-row">
            {ACTS.map((act) => (
              <TextInput
                key={act}
                className="third"
                label={t(`afterStep.${act}`)}
                placeholder={t('never')}
                inputMode="decimal"
                required={act === 'warn'}
                value={draft.after[act]}
                error={faults.has(act) ? t('wrong.minutes') : undefined}
                onChange={(event) => set({ after: { ...draft.after, [act]: event.currentTarget.value } })}
              />
            ))}
          </div>
          {problem('steps') !== undefined && (
            <p className="small fault" role="alert">
              {problem('steps')}
            </p>
          )}
          <div className="row wrap fields-row">
            {text('shrinkTo', problem('gpu_milli'), draft.after.shrink.trim() === '')}
            {text('windowMinutes', problem('window_seconds'))}
            {text('keepHours', problem('keep_seconds'))}
            {text('keepsPerDay', problem('keeps_per_day'))}
          </div>
          <div>
            <span className="field-label" id="policy-mode">
              {t('mode')}
            </span>
            <SegmentedControl
              size="xs"
              aria-labelledby="policy-mode"
              data={(['dry-run', 'on'] as const).map((value) => ({ value, label: t(`modes.${value}`) }))}
              value={draft.mode}
              onChange={(value) => set({ mode: value as PolicyDraft['mode'] })}
            />
          </div>
          {faults.size === 0 && <Effect body={makeBody(draft)} />}
        </>
      )}
    </FormDialog>
  )
}

/** What the policy would take now, and what dry runs would have given back. */
function Effect({ body }: { body: PolicyBody }) {
  const { t } = useTranslation('idle')
  const jobs = useQuery({ queryKey: ['idle', 'jobs'], queryFn: listIdleJobs })
  const report = useQuery({ queryKey: ['idle', 'report', SINCE], queryFn: () => getReport(SINCE) })
  const steps = foresee(body, jobs.data ?? [])
  const dry = (report.data?.rows ?? []).filter(
    (row) => row.dry_run && (body.tenant == null || row.tenant === body.tenant) && row.card_milliseconds !== null,
  )
  const hours = dry.reduce((sum, row) => sum + (row.card_milliseconds ?? 0), 0) / MS_PER_HOUR
  return (
    <div className="small" role="status">
      <span className="field-label">{t('wouldNow')}</span>
      {jobs.isSuccess && steps.length === 0 && <p>{t('wouldNothing')}</p>}
      <ul className="hints">
        {steps.map((step) => (
          <li key={step.act}>
            {t('would', { step: t(`acts.${step.act}`), count: step.jobs })}
            {step.milli > 0 && ` ${t('comesBack', { cards: formatCards(step.milli, 2) })}`}
          </li>
        ))}
      </ul>
      {dry.length > 0 && <p>{t('wouldHave', { hours: formatNumber(hours, 1) })}</p>}
    </div>
  )
}

/** The policy of the same jobs by the same admins; null: none. */
async function findTheirs(body: PolicyBody, byTenant: boolean): Promise<Tagged<IdlePolicy> | null> {
  const same = (await listPolicies()).find(
    (policy) =>
      policy.by_tenant === byTenant &&
      policy.tenant === (body.tenant ?? null) &&
      policy.project === (body.project ?? null) &&
      policy.kind === (body.kind ?? null),
  )
  return same === undefined ? null : { body: same, tag: `"${same.generation}"` }
}
