// Set a budget, or change one by its generation: what another admin saved meanwhile is shown first.
import { Button, Checkbox, SegmentedControl, Select, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { isStale, listAll, type Tagged } from '../../api/lists'
import { Problem } from '../../api/problem'
import type { components } from '../../api/schema'
import { FormDialog } from '../../ui/FormDialog'
import { useAmount } from './BudgetCard'
import {
  type Budget,
  type Draft,
  type Effect,
  fetchBudget,
  findFaults,
  listBudgets,
  makeBody,
  makeDraft,
  NEW_TAG,
  putBudget,
  type Unit,
} from './budgets'

type Tenant = components['schemas']['TenantOut']

const BELOW_SPENT = 'GP-2121'
const EFFECTS: readonly Effect[] = ['warn', 'hold', 'preempt']

interface BudgetDialogProps {
  /** Null: a new one. */
  readonly budget: Budget | null
  readonly tenant: string
  onDone(): void
  onClose(): void
}

export function BudgetDialog({ budget, tenant, onDone, onClose }: BudgetDialogProps) {
  const { t } = useTranslation('budgets')
  const amount = useAmount()
  const tenants = useQuery({ queryKey: ['people', 'tenants'], queryFn: () => listAll<Tenant>('/api/v1/tenants') })
  const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone
  const [draft, setDraft] = useState<Draft>(() => makeDraft(budget, tenant, timezone))
  const [tag, setTag] = useState(budget === null ? NEW_TAG : `"${budget.generation}"`)
  const [theirs, setTheirs] = useState<Tagged<Budget> | null>(null)
  const [force, setForce] = useState(false)
  const faults = findFaults(draft)
  const set = (part: Partial<Draft>) => setDraft({ ...draft, ...part })
  const act = async () => {
    try {
      return await putBudget(makeBody(draft, force), tag)
    } catch (error) {
      // Another change came first: show it, and keep what is written in the fields.
      if (isStale(error)) setTheirs(await findTheirs(draft))
      throw error
    }
  }
  const projects = tenants.data?.find((each) => each.name === draft.tenant)?.projects ?? []
  const wrong = (field: keyof Draft, problem: string | undefined) =>
    problem ?? (faults.has(field) && draft[field] !== '' ? t(`wrong.${field}`) : undefined)
  return (
    <FormDialog
      title={budget === null ? t('newBudget') : t('changeBudget')}
      confirm={t('save')}
      isReady={faults.size === 0}
      fieldOfCode={{ [BELOW_SPENT]: 'amount', 'GP-3004': 'tenant', 'GP-3047': 'user' }}
      wide
      act={act}
      onDone={onDone}
      onClose={onClose}
      below={(error) => (
        <>
          {error instanceof Problem && error.code === BELOW_SPENT && (
            <Checkbox label={t('force')} checked={force} onChange={(event) => setForce(event.currentTarget.checked)} />
          )}
          {isStale(error) && theirs !== null && theirs.tag !== tag && (
            <div role="status" className="small">
              <p>{t('theirs', { amount: amount(theirs.body, theirs.body.amount) })}</p>
              <div className="row wrap gap">
                <Button
                  size="xs"
                  onClick={() => {
                    setDraft(makeDraft(theirs.body, tenant, timezone))
                    setTag(theirs.tag)
                  }}
                >
                  {t('takeTheirs')}
                </Button>
                <Button size="xs" variant="default" onClick={() => setTag(theirs.tag)}>
                  {t('keepMine')}
                </Button>
              </div>
            </div>
          )}
          {isStale(error) && theirs !== null && theirs.tag === tag && (
            <p className="small" role="status">
              {t('saveAgain')}
            </p>
          )}
          {isStale(error) && theirs === null && (
            <p className="small" role="status">
              {t('gone')}{' '}
              <Button size="compact-xs" variant="default" onClick={() => setTag(NEW_TAG)}>
                {t('makeAgain')}
              </Button>
            </p>
          )}
        </>
      )}
    >
      {(problem) => (
        <>
          {budget === null && (
            <div className="row wrap fields-row">
              <Select
                className="third"
                label={t('tenant')}
                searchable
                allowDeselect={false}
                data={[...new Set([...(tenants.data ?? []).map((each) => each.name), draft.tenant])]}
                value={draft.tenant}
                error={problem('tenant')}
                onChange={(value) => set({ tenant: value ?? draft.tenant, project: '' })}
              />
              <Select
                className="third"
                label={t('project')}
                placeholder={t('allProjects')}
                clearable
                data={projects}
                value={draft.project || null}
                error={problem('project')}
                onChange={(value) => set({ project: value ?? '' })}
              />
              <TextInput
                className="third"
                label={t('user')}
                placeholder={t('allUsers')}
                value={draft.user}
                error={problem('user')}
                onChange={(event) => set({ user: event.currentTarget.value })}
              />
            </div>
          )}
          <div className="row wrap fields-row">
            <TextInput
              className="third"
              label={t(draft.unit === 'money' ? 'amountMoney' : 'amountHours')}
              inputMode="decimal"
              data-autofocus
              value={draft.amount}
              error={wrong('amount', problem('amount'))}
              onChange={(event) => set({ amount: event.currentTarget.value })}
            />
            <Select
              className="third"
              label={t('unit')}
              allowDeselect={false}
              data={(['money', 'gpu-hours'] as const).map((value) => ({ value, label: t(`unit.${value}`) }))}
              value={draft.unit}
              onChange={(value) => set({ unit: (value as Unit | null) ?? draft.unit })}
            />
            <Select
              className="third"
              label={t('period')}
              allowDeselect={false}
              data={(['month', 'quarter'] as const).map((value) => ({ value, label: t(`period.${value}`) }))}
              value={draft.period}
              onChange={(value) => set({ period: (value as Draft['period'] | null) ?? draft.period })}
            />
            <TextInput
              className="third"
              label={t('timezone')}
              value={draft.timezone}
              error={problem('timezone')}
              onChange={(event) => set({ timezone: event.currentTarget.value })}
            />
          </div>
          <div>
            <span className="field-label" id="budget-limit">
              {t('onLimit')}
            </span>
            <SegmentedControl
              size="xs"
              aria-labelledby="budget-limit"
              data={EFFECTS.map((value) => ({ value, label: t(`limit.${value}`) }))}
              value={draft.onLimit}
              onChange={(value) => set({ onLimit: value as Effect })}
            />
          </div>
          <div className="row wrap fields-row">
            <TextInput
              className="third"
              label={t('warnAt')}
              value={draft.warn}
              error={wrong('warn', problem('warn_percents'))}
              onChange={(event) => set({ warn: event.currentTarget.value })}
            />
            <TextInput
              className="third"
              label={t('holdAt')}
              disabled={draft.onLimit === 'warn'}
              value={draft.hold}
              error={wrong('hold', problem('hold_percent'))}
              onChange={(event) => set({ hold: event.currentTarget.value })}
            />
            <TextInput
              className="third"
              label={t('preemptAt')}
              disabled={draft.onLimit !== 'preempt'}
              value={draft.preempt}
              error={wrong('preempt', problem('preempt_percent'))}
              onChange={(event) => set({ preempt: event.currentTarget.value })}
            />
            <TextInput
              className="third"
              label={t('grace')}
              disabled={draft.onLimit !== 'preempt'}
              value={draft.graceHours}
              error={wrong('graceHours', problem('grace_seconds'))}
              onChange={(event) => set({ graceHours: event.currentTarget.value })}
            />
          </div>
          <p className="small sub">
            {t(`limitText.${draft.onLimit}`, { hold: draft.hold, preempt: draft.preempt, grace: draft.graceHours })}
          </p>
        </>
      )}
    </FormDialog>
  )
}

/** The budget that the owner of a draft has now; null: none. */
async function findTheirs(draft: Draft): Promise<Tagged<Budget> | null> {
  const same = (await listBudgets()).find(
    (budget) =>
      budget.tenant === draft.tenant &&
      (budget.project ?? '') === draft.project.trim() &&
      (budget.user ?? '') === draft.user.trim(),
  )
  return same === undefined ? null : fetchBudget(same.id)
}
