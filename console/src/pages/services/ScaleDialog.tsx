// Change how many replicas a service has: bounds and load of one, and what follows at once, before anything happens.
import { SegmentedControl, TextInput } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { keepPreviousData, skipToken, type UseQueryResult, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { isRefused } from '../../api/problem'
import { FormDialog, findProblem } from '../../ui/FormDialog'
import { formatNumber } from '../../ui/format'
import { Fact } from '../../ui/Page'
import {
  changeService,
  chooseMeasure,
  findFaults,
  MEASURES,
  type Measure,
  makeChange,
  makeRuleDraft,
  planChange,
  type RuleDraft,
  type Service,
  type ServicePlan,
  writeCommand,
} from './services'

const TYPING_MS = 300
/** Bounds that contradict each other. */
const FIELD_OF_CODE = { 'GP-2250': 'most' }

interface DialogProps {
  readonly service: Service
  onDone(): void
  onClose(): void
}

export function ScaleDialog({ service, onDone, onClose }: DialogProps) {
  const { t } = useTranslation('services')
  const [draft, setDraft] = useState<RuleDraft>(() => makeRuleDraft(service.rule))
  const [settled] = useDebouncedValue(draft, TYPING_MS)
  const faults = findFaults(draft)
  const plan = useQuery({
    queryKey: ['services', service.id, 'plan', makeChange(settled)],
    queryFn: findFaults(settled).size > 0 ? skipToken : () => planChange(service.id, makeChange(settled)),
    placeholderData: keepPreviousData,
  })
  const set = (part: Partial<RuleDraft>) => setDraft({ ...draft, ...part })
  const sayFault = (field: 'least' | 'most' | 'target') => {
    if (faults.has(field)) return t(field === 'target' ? `wrong.target.${draft.measure}` : `wrong.${field}`)
    if (field === 'most' && faults.has('bounds')) return t('wrong.bounds', { least: draft.least })
    return findProblem(plan.error, field, FIELD_OF_CODE)
  }
  const input = (field: 'least' | 'most' | 'target', label: string, problem: string | undefined) => (
    <TextInput
      className="third"
      label={label}
      inputMode="numeric"
      value={draft[field]}
      error={problem ?? sayFault(field)}
      onChange={(event) => set({ [field]: event.currentTarget.value })}
    />
  )
  return (
    <FormDialog
      title={t('scaleTitle', { name: service.name })}
      confirm={t('scaleNow', { name: service.name })}
      isReady={faults.size === 0 && !isRefused(plan.error)}
      fieldOfCode={FIELD_OF_CODE}
      wide
      act={() => changeService(service.id, makeChange(draft))}
      onDone={onDone}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <div className="row wrap fields-row">
            {input('least', t('field.least'), problem('min_replicas'))}
            {input('most', t('field.most'), problem('max_replicas') ?? problem('most'))}
            {input('target', t(`field.target.${draft.measure}`), problem('target'))}
          </div>
          <div>
            <span className="field-label" id="service-measure">
              {t('measure')}
            </span>
            <SegmentedControl
              size="xs"
              aria-labelledby="service-measure"
              data={MEASURES.map((value) => ({ value, label: t(`measures.${value}`) }))}
              value={draft.measure}
              onChange={(value) => setDraft(chooseMeasure(draft, value as Measure))}
            />
          </div>
          <Plan found={plan} isOld={faults.size > 0 || settled !== draft} />
          <code className="mono small word">{writeCommand(service.name, draft)}</code>
        </>
      )}
    </FormDialog>
  )
}

/** What the change does at once. */
function Plan({ found, isOld }: { found: UseQueryResult<ServicePlan>; isOld: boolean }) {
  const { t } = useTranslation('services')
  const plan = found.data
  if (plan === undefined || found.isError)
    return (
      <p className="small sub" role="status">
        --
      </p>
    )
  const ends = plan.ends.map((end) => t('planEnd', { number: end.number, count: end.requests }))
  return (
    <div role="status" aria-live="polite" className={isOld || found.isPlaceholderData ? 'old' : undefined}>
      <dl className="facts left">
        <Fact name={t('planWanted')}>
          {t('planChange', { before: formatNumber(plan.desired_before), after: formatNumber(plan.desired) })}
        </Fact>
        <Fact name={t('planStarts')}>{plan.starts > 0 ? t('replicas', { count: plan.starts }) : t('nothing')}</Fact>
        <Fact name={t('planEnds')}>
          {ends.length === 0
            ? t('nothing')
            : ends.map((text) => (
                <span key={text} className="services-end">
                  {text}
                </span>
              ))}
        </Fact>
      </dl>
      <p className="small sub services-plan">{t('planText')}</p>
    </div>
  )
}
