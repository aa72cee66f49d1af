import { Button } from '@mantine/core'
import { IconBan, IconCircleCheck, IconClockHour4 } from '@tabler/icons-react'
import { useTranslation } from 'react-i18next'
import type { Preview } from '../../api/preview'
import { formatCards, formatClock, formatMoney, formatShare, UNKNOWN } from '../../ui/format'
import { Fact, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { ServerText } from '../../ui/ServerText'
import { ShareBar } from '../../ui/ShareBar'
import type { Form } from './form'

const LOOKS = {
  fits: { icon: IconCircleCheck, colour: 'ok' },
  waits: { icon: IconClockHour4, colour: 'wait' },
  never: { icon: IconBan, colour: 'fault' },
} as const
const MICRO = 1e6
const SEATS_SHOWN = 8

interface Props {
  preview: Preview | undefined
  error: Error | null
  /** True while the answer is of an earlier text of the form. */
  isOld: boolean
  isSubmitting: boolean
  canSubmit: boolean
  form: Pick<Form, 'gpu' | 'count' | 'preemptible'>
}

/** What the scheduler would do with the request now, and the button that submits it. */
export function PreviewPanel(props: Props) {
  const { t } = useTranslation('request')
  const { preview, form } = props
  const seats = preview?.on ?? []
  return (
    <Panel className={props.isOld ? 'old' : ''}>
      {preview && <Verdict preview={preview} />}
      {!preview && !props.error && <p className="sub small">{t('noPreview')}</p>}
      {props.error && <Refusal error={props.error} />}
      {seats.length > 0 && (
        <div className="grid seats">
          <div className="small sub">{t('seats')}</div>
          {seats.slice(0, SEATS_SHOWN).map((seat) => (
            <div key={seat.uuid} className="row">
              <span className="small num sub nowrap">
                {seat.device} {seat.model}
              </span>
              <ShareBar
                height={18}
                label={`${seat.device}: ${formatShare(seat.gpu_milli, seat.memory_bytes)}`}
                pieces={[{ width: seat.gpu_milli / 1000, kind: 'mine' }]}
              />
            </div>
          ))}
        </div>
      )}
      <dl className="facts gap">
        <Fact name={t('share')}>{preview?.share ?? formatShare(Math.round(form.gpu * 1000), null, form.count)}</Fact>
        <Fact name={t('starts')}>{preview ? <Start preview={preview} /> : UNKNOWN}</Fact>
        <Costs preview={preview} />
        {preview?.quota && (
          <Fact name={t('quota', { tenant: preview.quota.tenant })}>
            {formatQuota(form.preemptible ? preview.quota.preemptible_milli : preview.quota.firm_milli, t('noLimit'))}
          </Fact>
        )}
      </dl>
      <Button type="submit" fullWidth size="md" mt="md" loading={props.isSubmitting} disabled={!props.canSubmit}>
        {preview?.outcome === 'waits' ? t('submitAndWait') : t('submit')}
      </Button>
    </Panel>
  )
}

const formatQuota = (milli: number | null | undefined, none: string): string =>
  milli === null || milli === undefined ? none : `${formatCards(milli, 2)} GPU`

function Verdict({ preview }: { preview: Preview }) {
  const { t } = useTranslation('request')
  const { icon: Glyph, colour } = LOOKS[preview.outcome]
  return (
    <div className="verdict" style={{ background: `var(--${colour}-bg)` }} aria-live="polite">
      <Glyph size={22} color={`var(--${colour})`} aria-hidden />
      <div>
        <b>
          {preview.outcome === 'waits' && preview.start_ns
            ? t('waitsUntil', { time: formatClock(preview.start_ns) })
            : t(`outcome.${preview.outcome}`)}
        </b>
        {preview.reason && (
          <p>
            <ServerText text={preview.reason} />
          </p>
        )}
        {preview.nearest && <p>{t('nearest', { share: preview.nearest })}</p>}
        {(preview.hints ?? []).map((hint) => (
          <p key={hint} className="small sub">
            <ServerText text={hint} />
          </p>
        ))}
        {preview.code && <p className="dim mono">{preview.code}</p>}
      </div>
    </div>
  )
}

function Start({ preview }: { preview: Preview }) {
  const { t } = useTranslation('request')
  if (preview.outcome === 'never') return <>{UNKNOWN}</>
  if (preview.outcome === 'fits') return <>{t('atOnce')}</>
  if (!preview.start_ns) return <>{t('noPromise')}</>
  const time = formatClock(preview.start_ns)
  return <>{preview.start_promised ? t('promised', { time }) : t('expected', { time })}</>
}

function Costs({ preview }: { preview: Preview | undefined }) {
  const { t } = useTranslation('request')
  const cost = preview?.cost
  if (!cost) return null
  const currency = cost.currency ?? ''
  return (
    <>
      <Fact name={t('costHour')}>{formatMoney(cost.per_hour_micro / MICRO, currency)}</Fact>
      <Fact name={t('costTotal')}>
        {cost.total_micro === null || cost.total_micro === undefined
          ? t('noEnd')
          : formatMoney(cost.total_micro / MICRO, currency)}
      </Fact>
    </>
  )
}
